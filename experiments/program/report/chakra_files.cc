#include "experiments/program/report/chakra_files.h"

#include <map>
#include <utility>

#include "core/base/strings.h"
#include "core/proto/chakra.pb.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/util/delimited_message_util.h"
#include "nlohmann/json.hpp"

namespace twofold {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::StringOutputStream;
using google::protobuf::util::ParseDelimitedFromZeroCopyStream;
using google::protobuf::util::SerializeDelimitedToZeroCopyStream;

using Group = std::pair<std::string, std::vector<int64_t>>;  // name, ranks

// Gives every group of every rank a number.
class Numbers {
 public:
  int64_t Of(const report::GraphGroup& group) {
    const Group key(group.name(), {group.ranks().begin(), group.ranks().end()});
    return numbers_.try_emplace(key, static_cast<int64_t>(numbers_.size())).first->second;
  }
  std::string Json() const {
    std::map<int64_t, const Group*> by_number;
    for (const auto& [group, number] : numbers_) by_number[number] = &group;
    nlohmann::ordered_json all = nlohmann::ordered_json::object();
    for (const auto& [number, group] : by_number) all[std::to_string(number)] = group->second;
    return StrCat(all.dump(), "\n");
  }

 private:
  std::map<Group, int64_t> numbers_;
};

chakra::GlobalMetadata Metadata(const std::string& job, int64_t rank, size_t ranks) {
  chakra::GlobalMetadata metadata;
  metadata.set_version("1.0.0");
  const auto add = [&metadata](const char* name) {
    chakra::Attribute* attribute = metadata.add_attr();
    attribute->set_name(name);
    return attribute;
  };
  add("program")->set_string_val("twofold");
  add("job")->set_string_val(job);
  add("rank")->set_int64_val(rank);
  add("world_size")->set_int64_val(static_cast<int64_t>(ranks));
  return metadata;
}

}  // namespace

std::string ChakraFileOf(int64_t rank) { return StrCat("rank.", rank, ".et"); }

std::vector<NamedText> ChakraFiles(const RankRecords& records, const std::string& job) {
  Numbers numbers;
  std::vector<NamedText> files;
  for (const report::RankRecord& record : records.kept()) {
    if (!record.has_execution_graph()) continue;
    std::vector<std::pair<std::string, std::string>> groups;  // number and name, by the rank's own number
    for (const report::GraphGroup& group : record.graph_groups())
      groups.emplace_back(std::to_string(numbers.Of(group)), group.name());
    NamedText& file = files.emplace_back(NamedText{ChakraFileOf(record.rank()), ""});
    StringOutputStream out(&file.text);
    SerializeDelimitedToZeroCopyStream(Metadata(job, record.rank(), records.size()), &out);
    ArrayInputStream in(record.execution_graph().data(), static_cast<int>(record.execution_graph().size()));
    chakra::Node node;
    for (bool end = false;;) {
      node.Clear();
      if (!ParseDelimitedFromZeroCopyStream(&node, &in, &end)) break;
      for (chakra::Attribute& attribute : *node.mutable_attr()) {
        if (attribute.name() != "pg_name") continue;
        const auto& [number, name] = groups.at(std::stoul(attribute.string_val()));
        attribute.set_string_val(number);
        chakra::Attribute& description = *node.add_attr();
        description.set_name("pg_desc"), description.set_string_val(name);
        break;
      }
      SerializeDelimitedToZeroCopyStream(node, &out);
    }
  }
  if (!files.empty()) files.push_back({kChakraGroups, numbers.Json()});
  return files;
}

}  // namespace twofold
