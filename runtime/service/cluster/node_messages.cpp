#include "runtime/service/cluster/node_messages.h"

#include <cstring>
#include <limits>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace batchflow::service {
namespace {

using nlohmann::json;

std::string dump(const json& message) {
  return message.dump(-1, ' ', false, json::error_handler_t::replace);
}

const json& at(const json& from, const char* key) {
  const auto found = from.find(key);
  if (found == from.end()) throw MessageError(fmt::format("a message without '{}'", key));
  return *found;
}

std::string text_of(const json& from, const char* key) {
  const json& value = at(from, key);
  if (!value.is_string()) throw MessageError(fmt::format("'{}' is no text", key));
  return value.get<std::string>();
}

std::uint64_t number_of(const json& from, const char* key,
                        std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
  const json& value = at(from, key);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
    throw MessageError(fmt::format("'{}' is no number up to {}", key, most));
  return value.get<std::uint64_t>();
}

std::uint32_t small_of(const json& from, const char* key) {
  return static_cast<std::uint32_t>(
      number_of(from, key, std::numeric_limits<std::uint32_t>::max()));
}

using Range = sources::SplitRule::Range;

json json_of(const std::optional<Range>& range) {
  return range ? json{range->first, range->last} : json();
}

std::optional<Range> range_of(const json& from, const char* key) {
  const json& value = at(from, key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() ||
      !value[1].is_number_unsigned())
    throw MessageError(fmt::format("'{}' is no range", key));
  return Range{value[0].get<std::uint64_t>(), value[1].get<std::uint64_t>()};
}

json json_of(const sources::SequenceRule& rule) {
  json out{{"packing", rule.packing}, {"seed", rule.seed}};
  if (rule.end_token) out["end_token"] = *rule.end_token;
  if (rule.rows > 0) out["rows"] = rule.rows;
  if (!rule.mixture.empty()) out["mix"] = rule.mixture;
  return out;
}

sources::SequenceRule sequences_of(const json& from) {
  sources::SequenceRule rule;
  rule.packing = text_of(from, "packing");
  rule.seed = number_of(from, "seed");
  if (from.contains("end_token")) rule.end_token = small_of(from, "end_token");
  if (from.contains("rows")) rule.rows = small_of(from, "rows");
  if (from.contains("mix")) rule.mixture = text_of(from, "mix");
  return rule;
}

json json_of(const NodeSplit& split) {
  const sources::SplitRule& rule = split.rule;
  return {{"name", split.name},
          {"folder", rule.folder},
          {"subset", rule.subset.string()},
          {"keys", json_of(rule.keys)},
          {"fraction", rule.fraction ? json(rule.fraction->parts) : json()},
          {"rest", rule.rest},
          {"classes", rule.classes},
          {"bytes", json_of(rule.bytes)}};
}

json json_of(const UserLimits& limits) {
  return {{"connections", limits.connections},
          {"messages_per_s", limits.messages_per_s},
          {"frame_bytes", limits.frame_bytes}};
}

UserLimits limits_of(const json& from) {
  UserLimits limits;
  limits.connections = small_of(from, "connections");
  limits.messages_per_s = small_of(from, "messages_per_s");
  if (limits.messages_per_s == 0) throw MessageError("'messages_per_s' is 0");
  limits.frame_bytes = number_of(from, "frame_bytes", Bytes{1} << 60);
  return limits;
}

NodeSplit split_of(const json& from) {
  NodeSplit split;
  split.name = text_of(from, "name");
  sources::SplitRule& rule = split.rule;
  rule.folder = text_of(from, "folder");
  rule.subset = text_of(from, "subset");
  rule.keys = range_of(from, "keys");
  if (!at(from, "fraction").is_null()) rule.fraction = Ratio{number_of(from, "fraction")};
  rule.rest = at(from, "rest") == true;
  for (const json& one : at(from, "classes")) {
    if (!one.is_string()) throw MessageError("a class that is no text");
    rule.classes.push_back(one.get<std::string>());
  }
  rule.bytes = range_of(from, "bytes");
  return split;
}

}  // namespace

std::string other_version_note(const std::string& version) {
  if (version.empty() || version == kServiceVersion) return {};
  return fmt::format(
      "it is version {}, and this node is version {}; both speak version {} of the nodes' "
      "protocol, "
      "so they work together until all are of one version",
      version, kServiceVersion, kNodeProtocol);
}

std::string encode(const AgentGreeting& message) {
  return dump({{"type", "agent"},
               {"protocol", message.protocol},
               {"version", message.version},
               {"name", message.name},
               {"state", message.state},
               {"cores", message.cores},
               {"memory", message.memory},
               {"address", message.address},
               {"cluster", message.term.cluster},
               {"term", message.term.number}});
}

std::string encode(const DatasetMessage& message) {
  json splits = json::array();
  for (const NodeSplit& split : message.asked.splits) splits.push_back(json_of(split));
  json asked{{"name", message.asked.name},     {"path", message.asked.path.string()},
             {"format", message.asked.format}, {"tokens", message.asked.tokens},
             {"column", message.asked.column}, {"label", message.asked.label},
             {"splits", std::move(splits)}};
  // Agents of a version that knows no sequences are sent none that do not need them.
  if (message.asked.sequences != sources::SequenceRule{})
    asked["sequences"] = json_of(message.asked.sequences);
  json out{{"type", "dataset"},         {"dataset", message.id.value}, {"asked", std::move(asked)},
           {"part", message.part},      {"name", message.name},        {"version", message.version},
           {"listing", message.listing}};
  if (!message.feed.empty()) out["feed"] = message.feed;
  return dump(out);
}

std::string encode(const PipelineMessage& message) {
  json out{{"type", "pipeline"},   {"pipeline", message.id.value},
           {"name", message.name}, {"dataset", message.dataset.value},
           {"text", message.text}, {"file", message.file},
           {"hash", message.hash}};
  if (message.user) out["user"] = *message.user;
  return dump(out);
}

std::string encode(const RankMessage& message) {
  json out{{"type", "rank"}, {"rank", message.rank}, {"frame", message.frame}};
  if (message.user) out["user"] = *message.user;
  if (message.rings_of) out["rings_of"] = message.rings_of->value;
  json shown = json::array();
  for (const DatasetId id : message.shown) shown.push_back(id.value);
  out["shown"] = std::move(shown);
  return dump(out);
}

std::string encode(const NodeCounters& counters) {
  json message{{"type", "counters"}};
  NodeCounters::each(counters,
                     [&](const char* name, std::uint64_t value) { message[name] = value; });
  json links = json::array();
  for (const LinkTraffic& one : counters.links)
    links.push_back({{"node", one.node}, {"bytes", one.bytes}, {"busy_ns", one.busy_ns}});
  message["links"] = std::move(links);
  for (const StepTally& one : counters.steps) {
    const step::StepCounters& count = one.counters;
    message["steps"].push_back({{"pipeline", one.pipeline.value},
                                {"step", one.step},
                                {"broken", int{one.broken}},
                                {"samples", count.samples},
                                {"corrupt", count.corrupt},
                                {"starts", count.starts},
                                {"crashes", count.crashes},
                                {"late", count.late},
                                {"busy_ns", count.busy.count()}});
  }
  return dump(message);
}

std::string encode_welcome(NodeId node, const TermName& term, const std::string& page) {
  return dump({{"type", "welcome"},
               {"node", node.value},
               {"cluster", term.cluster},
               {"term", term.number},
               {"version", kServiceVersion},
               {"page", page}});
}

std::string encode(const Quotas& quotas) {
  json message{{"type", "limits"}, {"of_all", json_of(quotas.of_all)}};
  json& some = message["of_some"] = json::array();
  for (const auto& [user, limits] : quotas.of_some) {
    some.push_back(json_of(limits));
    some.back()["user"] = user;
  }
  return dump(message);
}

std::string encode_peer(NodeId node, const std::string& address) {
  return dump({{"type", "peer"}, {"node", node.value}, {"address", address}});
}

std::string encode_unreachable(NodeId node, const std::string& problem) {
  return dump({{"type", "unreachable"}, {"node", node.value}, {"problem", problem}});
}

std::string encode_leaving() {
  return dump({{"type", "leaving"}});
}

std::string encode_let_go() {
  return dump({{"type", "let_go"}});
}

std::string encode_opened(DatasetId dataset, const std::string& problem) {
  return dump({{"type", "opened"}, {"dataset", dataset.value}, {"problem", problem}});
}

std::string encode_set_up(PipelineId pipeline, const std::string& problem) {
  return dump({{"type", "set_up"}, {"pipeline", pipeline.value}, {"problem", problem}});
}

std::string encode_pipeline_gone(PipelineId pipeline) {
  return dump({{"type", "pipeline_gone"}, {"pipeline", pipeline.value}});
}

// ----------------------------------------------------------------------------------- reading ----

struct NodeMessage::Fields {
  json all;
};

NodeMessage::NodeMessage(std::string_view text) : fields_(std::make_unique<Fields>()) {
  fields_->all = json::parse(text, nullptr, false);
  if (!fields_->all.is_object()) throw MessageError("a message that is no JSON object");
  type_ = text_of(fields_->all, "type");
}

NodeMessage::~NodeMessage() = default;

AgentGreeting NodeMessage::greeting() const {
  const json& all = fields_->all;
  AgentGreeting message;
  message.protocol = small_of(all, "protocol");
  message.version = text_of(all, "version");
  if (message.protocol != kNodeProtocol) return message;  // it may say other things
  message.name = text_of(all, "name");
  message.state = text_of(all, "state");
  message.cores = static_cast<std::uint32_t>(number_of(all, "cores", 4096));
  message.memory = number_of(all, "memory", Bytes{1} << 60);
  message.address = text_of(all, "address");
  message.term = term();
  return message;
}

DatasetMessage NodeMessage::dataset() const {
  const json& all = fields_->all;
  const json& asked = at(all, "asked");
  DatasetMessage message;
  message.id = DatasetId(small_of(all, "dataset"));
  message.asked.name = text_of(asked, "name");
  message.asked.path = text_of(asked, "path");
  message.asked.format = text_of(asked, "format");
  message.asked.tokens = number_of(asked, "tokens");
  if (asked.contains("sequences")) message.asked.sequences = sequences_of(at(asked, "sequences"));
  message.asked.column = text_of(asked, "column");
  message.asked.label = text_of(asked, "label");
  for (const json& split : at(asked, "splits")) message.asked.splits.push_back(split_of(split));
  message.part = number_of(all, "part");
  message.name = text_of(all, "name");
  message.version = number_of(all, "version");
  message.listing = number_of(all, "listing");
  if (all.contains("feed")) message.feed = text_of(all, "feed");
  return message;
}

PipelineMessage NodeMessage::pipeline() const {
  const json& all = fields_->all;
  PipelineMessage message;
  message.id = pipeline_id();
  message.dataset = DatasetId(small_of(all, "dataset"));
  message.name = text_of(all, "name");
  message.text = text_of(all, "text");
  message.file = text_of(all, "file");
  message.hash = number_of(all, "hash");
  if (all.contains("user")) message.user = number_of(all, "user");
  return message;
}

PipelineId NodeMessage::pipeline_id() const {
  return PipelineId(small_of(fields_->all, "pipeline"));
}

RankMessage NodeMessage::rank() const {
  const json& all = fields_->all;
  RankMessage message;
  message.rank = small_of(all, "rank");
  message.frame = text_of(all, "frame");
  if (all.contains("user")) message.user = number_of(all, "user");
  if (all.contains("rings_of")) message.rings_of = JobId(small_of(all, "rings_of"));
  for (const json& id : at(all, "shown")) {
    if (!id.is_number_unsigned()) throw MessageError("'shown' has what is no id");
    message.shown.emplace_back(id.get<std::uint32_t>());
  }
  return message;
}

// Those that a node of another version does not know stay 0.
NodeCounters NodeMessage::counters() const {
  NodeCounters counters;
  NodeCounters::each(counters, [&](const char* name, std::uint64_t& value) {
    if (fields_->all.contains(name)) value = number_of(fields_->all, name);
  });
  for (const json& one : fields_->all.value("links", json::array()))
    counters.links.push_back(
        {small_of(one, "node"), number_of(one, "bytes"), number_of(one, "busy_ns")});
  for (const json& one : fields_->all.value("steps", json::array()))
    counters.steps.push_back(
        {PipelineId(small_of(one, "pipeline")),
         small_of(one, "step"),
         small_of(one, "broken") != 0,
         {number_of(one, "samples"), number_of(one, "corrupt"), number_of(one, "starts"),
          number_of(one, "crashes"), number_of(one, "late"),
          Duration(static_cast<std::int64_t>(number_of(one, "busy_ns")))}});
  return counters;
}

Quotas NodeMessage::quotas() const {
  Quotas quotas;
  quotas.of_all = limits_of(at(fields_->all, "of_all"));
  for (const json& one : at(fields_->all, "of_some"))
    quotas.of_some[static_cast<uid_t>(small_of(one, "user"))] = limits_of(one);
  return quotas;
}

NodeId NodeMessage::node() const {
  return NodeId(small_of(fields_->all, "node"));
}

TermName NodeMessage::term() const {
  return {text("cluster"), number("term")};
}

std::string NodeMessage::version() const {
  return fields_->all.contains("version") ? text("version") : "";
}

std::string NodeMessage::page() const {
  return fields_->all.contains("page") ? text("page") : "";
}

std::string NodeMessage::text(const char* key) const {
  return text_of(fields_->all, key);
}

std::uint64_t NodeMessage::number(const char* key) const {
  return number_of(fields_->all, key);
}

std::string node_address(const remote::RemoteOptions& tcp, const std::string& host, int port) {
  const bool is_everywhere = host == "0.0.0.0" || host == "::";
  return with_host(fmt::format("{}://:{}", tcp.certificate.empty() ? "tcp" : "tls", port),
                   is_everywhere ? "" : host);
}

std::string with_host(const std::string& address, const std::string& host) {
  const std::size_t slashes = address.find("://");
  if (slashes == std::string::npos || address.compare(slashes, 4, "://:") != 0) return address;
  const bool is_v6 = host.find(':') != std::string::npos;
  return address.substr(0, slashes + 3) + (is_v6 ? "[" + host + "]" : host) +
         address.substr(slashes + 3);
}

std::vector<std::byte> rank_record(const RankRecordHead& head, std::span<const std::byte> record) {
  std::vector<std::byte> bytes(sizeof head + record.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  if (!record.empty()) std::memcpy(bytes.data() + sizeof head, record.data(), record.size());
  return bytes;
}

std::optional<RankRecordHead> rank_record_head(std::span<const std::byte> bytes) {
  RankRecordHead head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  const auto word = static_cast<std::uint32_t>(head.word);
  if (word < 1 || word > 4) return std::nullopt;
  return head;
}

}  // namespace batchflow::service
