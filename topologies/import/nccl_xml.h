// A node as NCCL describes it: the XML that NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads.
//
//     <system version="1">
//       <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143" affinity="...">
//         <pci busid="0000:16:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16" ...>
//           <pci busid="0000:18:00.0" class="0x030200" ...>
//             <gpu dev="0" sm="90" rank="0" gdr="1">
//               <nvlink target="0000:07:00.0" count="5" tclass="0x068000"/> ...
//             </gpu>
//           </pci>
//           <pci busid="0000:19:00.0" ...> <nic> <net name="mlx5_0" dev="0" speed="400000" .../> </nic> </pci>
//
// The whole document is kept, including elements and attributes that are not used here, so that writing it reproduces
// everything that was read. Allowed elements are those that NCCL and RCCL know: system, cpu, pci, gpu, nvlink, xgmi,
// c2c, pcilink, nic, net. Any other element is refused, because a misspelt element would be a missing link.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "topologies/import/imported_node.h"
#include "topologies/import/xml_document.h"

namespace twofold {

struct NcclXml {
  XmlDocument document;
  bool operator==(const NcclXml&) const = default;
};

inline constexpr int kMostNcclDevices = 1024;

// Checks elements, the attributes that the conversion needs and their values, and that bus ids and device numbers are
// unique.
absl::StatusOr<NcclXml> ReadNcclXml(std::string_view text, std::string_view file);
std::string WriteNcclXml(const NcclXml& xml);

// The node that NCCL derives from it, with the rates of the catalogue's clusters, so that the file of a DGX-1V gives
// the same node as the catalogue's dgx-1v:
//   NVLink   count x the rate of one link each way, by `sm`: 60-62 20, 70-99 25, 100 and above 50 GB/s (NVIDIA's data
//            sheets of P100, V100, A100, H100, B200). All NVSwitches (tclass 0x068000) are one switch; a GPU stripes
//            its traffic over all of them. xGMI (RCCL): 50 GB/s per link (AMD's data sheets of MI250X and MI300X). C2C:
//            count x bw MB/s. The latency between two GPUs is the catalogue's: over a cable 1.5 us on V100, 0.7 on
//            later GPUs; over NVSwitch 1.5 on V100, 1.2 on A100, 1 on later GPUs.
//   PCIe     link_width x link_speed, reduced by the encoding (8/10 up to 5 GT/s, 128/130 above) and by packet overhead
//            to the rate that the catalogue gives as achieved: 12.5 of 16 x 8 GT/s. Absent or unknown values count as
//            x16 of 8 GT/s, as in NCCL.
//   sockets  every CPU is joined to every other, at the rates that NCCL's authors measured (its src/graph/topo.h):
//            Intel Broadwell 6, Skylake 10, Sapphire Rapids 22, Emerald Rapids 40, AMD 16, Zhaoxin 6, POWER9 32, Arm 6
//            GB/s.
//   NICs     one per <net>. The nearest NIC of a GPU is the one with the fewest cables between; ties go to the NIC with
//            fewer GPUs.
// GPUs are devices in the order of `dev`. Refuses more than one host (host_hash), NVLinks whose two ends disagree, and
// GPUs that are not connected. Links to GPUs that are not in the file are left out, with a note.
absl::StatusOr<ImportedNode> NodeOf(const NcclXml& xml, const ImportAssumptions& assumptions = {});

}  // namespace twofold
