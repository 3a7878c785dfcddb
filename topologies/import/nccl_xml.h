// A node as NCCL describes it: the XML that NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads.
//
//     <system version="1">
//       <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143" affinity="...">
//         <pci busid="0000:16:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16" ...>
//           <pci busid="0000:18:00.0" class="0x030200" ...>
//             <gpu dev="0" sm="90" rank="0" gdr="1"> <nvlink target="0000:07:00.0" count="5" tclass="0x068000"/> ... </gpu>
//           </pci>
//           <pci busid="0000:19:00.0" ...> <nic> <net name="mlx5_0" dev="0" speed="400000" .../> </nic> </pci>
//
// The document is kept whole, with elements and attributes that nothing here looks at, so that writing it gives back all that
// was read. Elements are those that NCCL and RCCL know: system, cpu, pci, gpu, nvlink, xgmi, c2c, pcilink, nic, net; others
// are refused where they stand, as a misspelt one would be a link that is missing.
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

// Checks elements, the attributes that conversion needs, their values, and that bus ids and device numbers are unique.
absl::StatusOr<NcclXml> ReadNcclXml(std::string_view text, std::string_view file);
std::string WriteNcclXml(const NcclXml& xml);

// What NCCL makes of it, with the rates that the catalogue's clusters have, so that a DGX-1V's file gives what the catalogue's dgx-1v gives:
//   NVLink   count x one link's rate each way, by `sm`: 60-62 20, 70-99 25, 100 and above 50 GB/s (NVIDIA's data sheets of
//            P100, V100, A100, H100, B200). All NVSwitches (tclass 0x068000) are one switch, over which a GPU stripes.
//            xGMI (RCCL): 50 GB/s a link (AMD's data sheets of MI250X and MI300X). C2C: count x bw MB/s.
//            Latency between two GPUs is the catalogue's: over a cable 1.5 us on V100, 0.7 later; over NVSwitch 1.5, A100 1.2, later 1.
//   PCIe     link_width x link_speed, of which encoding (8/10 up to 5 GT/s, 128/130 above) and packets leave what the catalogue says is
//            reached: 12.5 of 16 x 8 GT/s; absent or unknown: x16 of 8 GT/s, as NCCL.
//   sockets  every CPU to every other, at what NCCL's authors measured (its src/graph/topo.h): Intel Broadwell 6, Skylake 10,
//            Sapphire Rapids 22, Emerald Rapids 40, AMD 16, Zhaoxin 6, POWER9 32, Arm 6 GB/s.
//   NICs     one a <net>; the nearest of a GPU is the one with the fewest cables between, then the one with fewer GPUs.
// GPUs are devices in the order of `dev`. Refuses more than one host (host_hash), NVLinks whose two ends disagree, and GPUs
// that nothing joins. Links to GPUs that the file does not hold are left out, with a note.
absl::StatusOr<ImportedNode> NodeOf(const NcclXml& xml, const ImportAssumptions& assumptions = {});

}  // namespace twofold
