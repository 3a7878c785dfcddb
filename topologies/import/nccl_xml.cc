#include "topologies/import/nccl_xml.h"

#include <map>
#include <regex>
#include <utility>

#include "absl/strings/numbers.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

// The nesting of elements as NCCL reads it; "xgmi" is RCCL's. All others have no children.
constexpr XmlRule kRules[] = {{"system", "", "cpu"},
                              {"cpu", "", "pci nic"},
                              {"pci", "", "pci gpu nic pcilink"},
                              {"gpu", "", "nvlink xgmi c2c"},
                              {"nic", "", "net"}};

bool IsBusId(const std::string& id) {  // domain:bus:device.function, in hexadecimal digits
  static const std::regex kBusId("[[:xdigit:]]{4,8}:[[:xdigit:]]{2}:[[:xdigit:]]{2}\\.[[:xdigit:]]");
  return std::regex_match(id, kBusId);
}

class Checker {
 public:
  explicit Checker(const XmlDocument& document) : document_(document) {}

  absl::Status Check() {
    const XmlNode& root = document_.root();
    if (root.name != "system") return Error(root, "", "the root element of an NCCL topology must be <system>");
    if (absl::Status s = Number(root, "version", 1, 2, true); !s.ok()) return s;
    return CheckElements(document_, kRules, [this](const XmlNode& at) { return Attributes(at); });
  }

 private:
  absl::Status Error(const XmlNode& at, std::string_view attribute, const auto&... what) const {
    return XmlError(document_.file, at, attribute, StrCat(what...));
  }

  absl::Status Number(const XmlNode& at, std::string_view name, int64_t low, int64_t high, bool required) const {
    const std::string* text = at.Find(name);
    if (text == nullptr)
      return required ? Error(at, name, "missing; give a whole number from ", low, " to ", high) : absl::OkStatus();
    int64_t value = 0;
    if (absl::SimpleAtoi(*text, &value) && value >= low && value <= high) return absl::OkStatus();
    return Error(at, name, "must be a whole number from ", low, " to ", high);
  }

  // Checks that no two elements with the same name have the same value of this attribute.
  absl::Status Unique(const XmlNode& at, std::string_view name) {
    const auto [first, added] = seen_.try_emplace({StrCat(at.name, " ", name), *at.Find(name)}, at.line);
    return added ? absl::OkStatus()
                 : Error(at, name, "also used on line ", first->second, "; give each ", at.name, " its own");
  }

  absl::Status Attributes(const XmlNode& at) {
    constexpr int64_t kAny = int64_t{1} << 31;
    if (at.name == "cpu") {
      for (const char* name : {"numaid", "familyid", "modelid"}) {
        if (absl::Status s = Number(at, name, -1, kAny, std::string_view(name) == "numaid"); !s.ok()) return s;
      }
    } else if (at.name == "pci") {
      const std::string* id = at.Find("busid");
      if (id == nullptr || !IsBusId(*id))
        return Error(at, "busid", "must be domain:bus:device.function, such as 0000:18:00.0");
      if (absl::Status s = Unique(at, "busid"); !s.ok()) return s;
      if (absl::Status s = Number(at, "link_width", -1, 64, false); !s.ok()) return s;
      return Speed(at);
    } else if (at.name == "gpu") {
      if (absl::Status s = Number(at, "dev", 0, kMostNcclDevices - 1, true); !s.ok()) return s;
      if (absl::Status s = Number(at, "sm", 0, 9999, true); !s.ok()) return s;
      return Unique(at, "dev");
    } else if (at.name == "net") {
      if (at.Find("name") == nullptr) return Error(at, "name", "missing; give the interface's name");
      if (absl::Status s = Unique(at, "name"); !s.ok()) return s;
      return Number(at, "speed", -1, 1'000'000'000, false);
    } else if (at.name == "nvlink" || at.name == "xgmi") {
      return Target(at);
    } else if (at.name == "c2c") {
      if (absl::Status s = Number(at, "count", 1, 1024, true); !s.ok()) return s;
      return Number(at, "bw", 1, 10'000'000, true);  // MB/s
    }
    return absl::OkStatus();
  }

  absl::Status Speed(const XmlNode& at) const {
    const std::string* text = at.Find("link_speed");
    double gigatransfers = 0;
    if (text == nullptr || text->empty() || text->starts_with("Unknown")) return absl::OkStatus();
    const size_t unit = text->find(" GT/s");
    if (unit != std::string::npos && absl::SimpleAtod(text->substr(0, unit), &gigatransfers) && gigatransfers > 0 &&
        gigatransfers <= 1024) {
      return absl::OkStatus();
    }
    return Error(at, "link_speed", "must have the form \"16.0 GT/s PCIe\"");
  }

  absl::Status Target(const XmlNode& at) const {
    if (absl::Status s = Number(at, "count", 1, 1024, true); !s.ok()) return s;
    const std::string* type = at.Find("tclass");
    const bool gpu = type != nullptr && (type->starts_with("0x03") || type->starts_with("0x12"));
    if (!gpu && (type == nullptr || (*type != "0x068000" && *type != "0x068001"))) {
      return Error(
          at, "tclass",
          "must be the PCI class of a GPU (0x03....), of an NVSwitch (0x068000) or of POWER's bridge (0x068001)");
    }
    const std::string* target = at.Find("target");
    if (target == nullptr) return Error(at, "target", "missing; give the bus id of the other end");
    return gpu && !IsBusId(*target) ? Error(at, "target", "must be the bus id of a GPU, such as 0000:18:00.0")
                                    : absl::OkStatus();
  }

  const XmlDocument& document_;
  std::map<std::pair<std::string, std::string>, int> seen_;  // element and attribute, value -> line
};

}  // namespace

absl::StatusOr<NcclXml> ReadNcclXml(std::string_view text, std::string_view file) {
  absl::StatusOr<XmlDocument> document = ReadXml(text, file);
  if (!document.ok()) return document.status();
  if (absl::Status s = Checker(*document).Check(); !s.ok()) return s;
  return NcclXml{*std::move(document)};
}

std::string WriteNcclXml(const NcclXml& xml) { return WriteXml(xml.document); }

}  // namespace twofold
