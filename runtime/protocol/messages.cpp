#include "runtime/protocol/messages.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/names.h"
#include "core/order/mixing.h"
#include "core/order/rehearsal.h"
#include "runtime/protocol/ring_files.h"

namespace batchflow::protocol {
namespace {

using Json = nlohmann::json;

constexpr int kDepthMost = 8;
constexpr std::size_t kNotesMost = 16;
constexpr std::size_t kTypeMost = 64;
// A refusal quotes what it refuses. It must fit a frame also where each byte takes six in JSON.
constexpr std::size_t kRefusalMost = kFrameMost / 8;
// A relay adds a field to a `hello` before it passes it on. The result must fit a frame.
constexpr std::size_t kHelloTextMost = 1024;

std::string text_of(const Json& message) {
  return message.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What is wrong with a message. The JSON library throws its own errors likewise.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Json parse(std::string_view frame) {
  const auto is_flat = [](int depth, Json::parse_event_t, const Json&) {
    if (depth > kDepthMost) throw Wrong("nested too deeply");
    return true;
  };
  Json message = Json::parse(frame, is_flat);
  if (!message.is_object()) throw Wrong("not an object");
  return message;
}

// The fields of one object. A field that is missing keeps its default.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {
    if (!object.is_object()) throw Wrong("not an object");
  }

  const Json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  template <class Number>
  void number(const char* name, Number& out, std::uint64_t least = 0) const {
    const Json* value = find(name);
    if (value == nullptr && least == 0) return;
    if (value == nullptr || !value->is_number_unsigned() ||
        value->get<std::uint64_t>() > std::numeric_limits<Number>::max() ||
        value->get<std::uint64_t>() < least) {
      throw Wrong(fmt::format("'{}' must be an integer, at least {}", name, least));
    }
    out = static_cast<Number>(value->get<std::uint64_t>());
  }
  void flag(const char* name, bool& out) const {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_boolean()) throw Wrong(fmt::format("'{}' must be true or false", name));
    out = value->get<bool>();
  }
  void text(const char* name, std::string& out, std::size_t most = kFrameMost) const {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_string()) throw Wrong(fmt::format("'{}' must be a string", name));
    out = value->get<std::string>();
    if (out.size() > most) throw Wrong(fmt::format("'{}' has more than {} bytes", name, most));
    if (out.find('\0') != std::string::npos)
      throw Wrong(fmt::format("'{}' has a zero in it", name));
  }
  void require_type(std::string_view type) const {
    std::string found;
    text("type", found, kTypeMost);
    if (found != type) throw Wrong(fmt::format("its type is '{}', not '{}'", found, type));
  }

 private:
  const Json& object_;
};

// Calls `decode`, and lets no error of it or of the JSON library out.
template <class Decode>
auto decoded(std::string_view frame, std::string& problem, Decode decode)
    -> std::optional<decltype(decode(Fields(Json())))> {
  try {
    const Json message = parse(frame);
    return decode(Fields(message));
  } catch (const std::exception& error) {
    problem = fmt::format("a message that cannot be understood: {}", error.what());
    return std::nullopt;
  }
}

Json json_of(const batch::BatchSpec& spec) {
  Json fields = Json::array();
  for (const batch::Field& field : spec.fields) {
    fields.push_back({{"name", field.name},
                      {"type", batch::element_name(field.type)},
                      {"shape", field.shape},
                      {"ragged", field.ragged}});
  }
  return fields;
}

batch::Field field_of(const Json& json) {
  const Fields fields(json);
  batch::Field field;
  fields.text("name", field.name);
  fields.flag("ragged", field.ragged);
  std::string type;
  fields.text("type", type);
  const auto element = batch::element_from(type);
  if (!element) throw Wrong(fmt::format("there is no element type '{}'", type));
  field.type = *element;
  const Json* shape = fields.find("shape");
  if (shape == nullptr || !shape->is_array()) throw Wrong("'shape' must be a list");
  for (const Json& size : *shape) {
    if (!size.is_number_unsigned()) throw Wrong("'shape' must be a list of integers");
    field.shape.push_back(size.get<std::uint64_t>());
  }
  return field;
}

batch::BatchSpec spec_of(const Json* json) {
  if (json == nullptr || !json->is_array()) throw Wrong("'fields' must be a list");
  batch::BatchSpec spec;
  if (json->size() > batch::BatchSpec::kFieldsMost) throw Wrong("too many fields");
  for (const Json& field : *json) spec.fields.push_back(field_of(field));
  if (const std::string problem = spec.problem(); !problem.empty()) throw Wrong(problem);
  return spec;
}

void add(const OrderOptions& options, Json& message) {
  message["draws"] = options.draws;
  message["multinomial"] = options.multinomial;
  message["node_local"] = options.node_local;
  message["runs"] = options.runs;
  message["rehearsed"] = options.rehearsed;
  if (options.buffer_exemplars > 0) {
    message["buffer_exemplars"] = options.buffer_exemplars;
    message["buffer_policy"] = options.buffer_policy;
    message["buffer_name"] = options.buffer_name;
  }
  if (options.fills_after_s != 0 || options.fills_from != 0 || options.fills_cut ||
      options.from_newest) {  // nor do services before live orders
    message["fills_after"] = options.fills_after_s;
    message["fills_from"] = options.fills_from;
    message["fills_cut"] = options.fills_cut;
    message["from_newest"] = options.from_newest;
  }
  if (options.begin_at) message["begin_at"] = *options.begin_at;
  if (options.keyed) message["keyed"] = true;
  if (options.sources.empty()) return;  // services before mixtures know none of these
  Json& sources = message["sources"] = Json::array();
  for (const WeighedSource& source : options.sources)
    sources.push_back(Json::array({source.name, source.weight}));
  message["sources_in_order"] = options.sources_in_order;
  message["weights_change"] = options.weights_change;
  if (!options.weights_policy.empty()) message["weights_policy"] = options.weights_policy;
  if (options.schedule.empty()) return;
  Json& schedule = message["schedule"] = Json::array();
  for (const ScheduledWeights& one : options.schedule)
    schedule.push_back(Json::array({one.at, one.weights}));
}

std::vector<WeighedSource> sources_of(const Json* json) {
  std::vector<WeighedSource> sources;
  if (json == nullptr) return sources;
  if (!json->is_array() || json->size() > order::Mixing::kSourcesMost)
    throw Wrong(fmt::format("'sources' must be a list of at most {}", order::Mixing::kSourcesMost));
  for (const Json& one : *json) {
    if (!one.is_array() || one.size() != 2 || !one[0].is_string() || !one[1].is_number())
      throw Wrong("'sources' must be a list of names with weights");
    sources.push_back({one[0].get<std::string>(), one[1].get<double>()});
  }
  return sources;
}

std::vector<ScheduledWeights> schedule_of(const Json* json) {
  std::vector<ScheduledWeights> schedule;
  if (json == nullptr) return schedule;
  if (!json->is_array() || json->size() > order::Mixing::kChangesMost)
    throw Wrong(
        fmt::format("'schedule' must be a list of at most {}", order::Mixing::kChangesMost));
  for (const Json& one : *json) {
    if (!one.is_array() || one.size() != 2 || !one[0].is_number_unsigned() || !one[1].is_array())
      throw Wrong("'schedule' must be a list of samples with weights");
    ScheduledWeights& made = schedule.emplace_back();
    made.at = one[0].get<std::uint64_t>();
    for (const Json& weight : one[1]) {
      if (!weight.is_number()) throw Wrong("a weight of 'schedule' must be a number");
      made.weights.push_back(weight.get<double>());
    }
  }
  return schedule;
}

OrderOptions order_options_of(const Fields& fields) {
  OrderOptions options;
  fields.number("draws", options.draws);
  fields.flag("multinomial", options.multinomial);
  fields.flag("node_local", options.node_local);
  fields.flag("runs", options.runs);
  fields.number("rehearsed", options.rehearsed);
  fields.number("buffer_exemplars", options.buffer_exemplars);
  fields.text("buffer_policy", options.buffer_policy);
  fields.text("buffer_name", options.buffer_name);
  if (const Json* const after = fields.find("fills_after"); after && after->is_number())
    options.fills_after_s = after->get<double>();
  fields.number("fills_from", options.fills_from);
  fields.flag("fills_cut", options.fills_cut);
  fields.flag("from_newest", options.from_newest);
  if (fields.find("begin_at") != nullptr) fields.number("begin_at", options.begin_at.emplace());
  fields.flag("keyed", options.keyed);
  options.sources = sources_of(fields.find("sources"));
  fields.flag("sources_in_order", options.sources_in_order);
  fields.flag("weights_change", options.weights_change);
  fields.text("weights_policy", options.weights_policy);
  options.schedule = schedule_of(fields.find("schedule"));
  return options;
}

std::vector<SampleId> exemplars_of(const Json* json) {
  std::vector<SampleId> exemplars;
  if (json == nullptr) return exemplars;
  if (!json->is_array() || json->size() > order::kExemplarsMost)
    throw Wrong(fmt::format("'exemplars' must be a list of at most {}", order::kExemplarsMost));
  exemplars.reserve(json->size());
  for (const Json& sample : *json) {
    if (!sample.is_number_unsigned()) throw Wrong("'exemplars' must be a list of integers");
    exemplars.emplace_back(sample.get<std::uint64_t>());
  }
  return exemplars;
}

Order order_of(const Fields& fields) {
  std::string name = "relaxed";
  fields.text("order", name);
  if (const auto order = order_named(name)) return *order;
  throw Wrong(fmt::format("there is no order '{}'", name));
}

}  // namespace

std::string message_type(std::string_view frame, std::string& problem) {
  return decoded(frame, problem,
                 [](const Fields& fields) {
                   std::string type;
                   fields.text("type", type, kTypeMost);
                   if (type.empty()) throw Wrong("it has no type");
                   return type;
                 })
      .value_or("");
}

// ---------------------------------------------------------------------------------- encode ----

std::string encode(const Hello& hello) {
  return text_of({{"type", "hello"},
                  {"protocol", hello.protocol},
                  {"version", hello.version},
                  {"pid", hello.pid},
                  {"from", hello.from}});
}

std::string encode(const Welcome& welcome) {
  return text_of({{"type", "welcome"},
                  {"protocol", welcome.protocol},
                  {"version", welcome.version},
                  {"service", welcome.service}});
}

std::string encode(const JoinRequest& request) {
  Json message{{"type", "join"},
               {"dataset", request.dataset},
               {"reading", request.reading},
               {"pipeline", request.pipeline},
               {"job", request.job},
               {"pid", request.pid},
               {"rank", request.rank},
               {"world_size", request.world_size},
               {"batch_samples", request.batch_samples},
               {"order", name_of(request.order)},
               {"drop_last", request.drop_last},
               {"epochs", request.epochs},
               {"steps", request.steps},
               {"credits", request.credits},
               {"weight", request.weight},
               {"latency_target_s", request.latency_target_s},
               {"state", request.state},
               {"rejoins", request.rejoins},
               {"ticket", request.ticket},
               {"steps_given", request.steps_given},
               {"pipeline_hash", request.pipeline_hash},
               {"follows_choices", request.follows_choices},
               {"allows_ideal", request.allows_ideal}};
  add(request.order_options, message);
  if (!request.exemplars.empty()) {
    Json& exemplars = message["exemplars"] = Json::array();
    for (const SampleId sample : request.exemplars) exemplars.push_back(sample.value);
  }
  if (request.shuffle_seed) message["shuffle_seed"] = *request.shuffle_seed;
  if (!request.form.empty()) message["form"] = request.form;
  if (request.corrupt_ratio_max) message["corrupt_ratio_max"] = *request.corrupt_ratio_max;
  return text_of(message);
}

std::string encode(const JoinAnswer& admission) {
  Json message{{"type", "admitted"},
               {"job", admission.job},
               {"dataset_version", admission.dataset_version},
               {"dataset_samples", admission.dataset_samples},
               {"seed", admission.seed},
               {"pipeline_hash", admission.pipeline_hash},
               {"credits", admission.credits},
               {"first_step", admission.first_step},
               {"steps_per_epoch", admission.steps_per_epoch},
               {"classes", admission.classes},
               {"fields", json_of(admission.spec)},
               {"ring_bytes", admission.ring_bytes},
               {"state", admission.state},
               {"ticket", admission.ticket},
               {"notes", admission.notes}};
  add(admission.order_options, message);
  return text_of(message);
}

std::string encode(const Refused& refused) {
  Json json{{"type", "refused"},
            {"why", refused.why},
            {"message", refused.message.substr(0, kRefusalMost)}};
  if (!refused.show.empty()) json["show"] = refused.show;
  if (refused.steps_given > 0) json["steps_given"] = refused.steps_given;
  return text_of(json);
}

std::string encode(const SlabMessage& message) {
  if (message.bytes == 0) return text_of({{"type", "slab_gone"}, {"slab", message.slab}});
  return text_of({{"type", "slab"}, {"slab", message.slab}, {"bytes", message.bytes}});
}

std::string encode(const NameMessage& message) {
  Json json{{"type", message.of_class ? "class_name" : "sample_name"}, {"key", message.key}};
  if (message.name) json["name"] = *message.name;
  return text_of(json);
}

std::string encode(const SamplesSum& sum) {
  return text_of({{"type", "samples_sum"},
                  {"first", sum.first},
                  {"count", sum.count},
                  {"names", sum.names},
                  {"labels", sum.labels},
                  {"pairs", sum.pairs}});
}

std::string encode(const FindMessage& message) {
  Json json{{"type", "find_sample"}, {"name", message.name}, {"from", message.from}};
  if (message.key) json["key"] = *message.key;
  if (message.next) json["next"] = *message.next;
  return text_of(json);
}

std::string encode(const WaitingMessage& message) {
  Json json{{"type", "waiting"}};
  if (message.message) json["message"] = *message.message;
  return text_of(json);
}

std::string encode_leave() {
  return text_of({{"type", "leave"}});
}

// ---------------------------------------------------------------------------------- decode ----

std::optional<Hello> decode_hello(std::string_view frame, std::string& problem) {
  return decoded(frame, problem, [](const Fields& fields) {
    Hello hello;
    fields.require_type("hello");
    fields.number("protocol", hello.protocol, 1);
    fields.text("version", hello.version, kHelloTextMost);
    fields.number("pid", hello.pid);
    fields.text("from", hello.from, kHelloTextMost);
    return hello;
  });
}

std::optional<Welcome> decode_welcome(std::string_view frame, std::string& problem) {
  return decoded(frame, problem, [](const Fields& fields) {
    Welcome welcome;
    fields.require_type("welcome");
    fields.number("protocol", welcome.protocol, 1);
    fields.text("version", welcome.version);
    fields.text("service", welcome.service);
    return welcome;
  });
}

std::optional<JoinRequest> decode_join(std::string_view frame, std::string& problem) {
  return decoded(frame, problem, [](const Fields& fields) {
    JoinRequest request;
    fields.require_type("join");
    fields.text("dataset", request.dataset);
    fields.text("reading", request.reading);
    if (request.dataset.empty()) throw Wrong("'dataset' must name one");
    fields.text("pipeline", request.pipeline);
    fields.text("form", request.form);
    if (!request.form.empty() && request.form != "encoded" && request.form != "decoded")
      throw Wrong("'form' must be encoded or decoded");
    fields.text("job", request.job);
    fields.number("pid", request.pid);
    fields.number("rank", request.rank);
    fields.number("world_size", request.world_size, 1);
    if (request.rank >= request.world_size) throw Wrong("'rank' must be below 'world_size'");
    fields.number("batch_samples", request.batch_samples, 1);
    request.order = order_of(fields);
    request.order_options = order_options_of(fields);
    fields.flag("follows_choices", request.follows_choices);
    fields.flag("allows_ideal", request.allows_ideal);
    request.exemplars = exemplars_of(fields.find("exemplars"));
    if (fields.find("shuffle_seed") != nullptr)
      fields.number("shuffle_seed", request.shuffle_seed.emplace());
    fields.flag("drop_last", request.drop_last);
    fields.number("epochs", request.epochs);
    fields.number("steps", request.steps);
    fields.number("credits", request.credits);
    if (const Json* weight = fields.find("weight")) {
      request.weight = weight->is_number() ? weight->get<double>() : 0;
      if (!std::isfinite(request.weight) || request.weight <= 0)
        throw Wrong("'weight' must be a positive number");
    }
    if (const Json* target = fields.find("latency_target_s")) {
      request.latency_target_s = target->is_number() ? target->get<double>() : -1;
      if (!(request.latency_target_s >= 0 && request.latency_target_s <= kLatencyTargetMostS))
        throw Wrong("'latency_target_s' must be 0 to 3600 seconds");
    }
    fields.text("state", request.state);
    fields.flag("rejoins", request.rejoins);
    fields.text("ticket", request.ticket);
    fields.number("steps_given", request.steps_given);
    fields.number("pipeline_hash", request.pipeline_hash);
    if (const Json* ratio = fields.find("corrupt_ratio_max")) {
      request.corrupt_ratio_max = ratio->is_number() ? ratio->get<double>() : -1;
      if (!(*request.corrupt_ratio_max >= 0 && *request.corrupt_ratio_max <= 1))
        throw Wrong("'corrupt_ratio_max' must be a number from 0 to 1");
    }
    return request;
  });
}

std::optional<JoinAnswer> decode_join_answer(std::string_view frame, std::string& problem) {
  return decoded(frame, problem, [](const Fields& fields) {
    JoinAnswer admission;
    fields.require_type("admitted");
    fields.text("job", admission.job);
    fields.number("dataset_version", admission.dataset_version);
    fields.number("dataset_samples", admission.dataset_samples, 1);
    fields.number("seed", admission.seed);
    fields.number("pipeline_hash", admission.pipeline_hash);
    fields.number("credits", admission.credits, 1);
    fields.number("first_step", admission.first_step);
    fields.number("steps_per_epoch", admission.steps_per_epoch);
    fields.number("classes", admission.classes);
    admission.spec = spec_of(fields.find("fields"));
    fields.number("ring_bytes", admission.ring_bytes, kRingLeast);
    fields.text("state", admission.state);
    fields.text("ticket", admission.ticket);
    admission.order_options = order_options_of(fields);
    if (const Json* notes = fields.find("notes")) {
      if (!notes->is_array() || notes->size() > kNotesMost) throw Wrong("'notes' must be a list");
      for (const Json& note : *notes) {
        if (!note.is_string()) throw Wrong("'notes' must be a list of strings");
        admission.notes.push_back(note.get<std::string>());
      }
    }
    return admission;
  });
}

std::optional<Refused> decode_refused(std::string_view frame, std::string& problem) {
  return decoded(frame, problem, [](const Fields& fields) {
    Refused refused;
    fields.require_type("refused");
    fields.text("why", refused.why);
    fields.text("message", refused.message);
    fields.text("show", refused.show);
    fields.number("steps_given", refused.steps_given);
    return refused;
  });
}

std::optional<SlabMessage> decode_slab(std::string_view frame, std::string& problem) {
  return decoded(frame, problem, [](const Fields& fields) {
    SlabMessage message;
    std::string type;
    fields.text("type", type);
    if (type != "slab_gone") {
      fields.require_type("slab");
      fields.number("bytes", message.bytes, 1);
    }
    fields.number("slab", message.slab);
    return message;
  });
}

std::optional<NameMessage> decode_name(std::string_view frame, std::string& problem) {
  return decoded(frame, problem, [](const Fields& fields) {
    NameMessage message;
    std::string type;
    fields.text("type", type);
    message.of_class = type == "class_name";
    if (!message.of_class) fields.require_type("sample_name");
    fields.number("key", message.key);
    if (fields.find("name") != nullptr) fields.text("name", message.name.emplace());
    return message;
  });
}

std::optional<SamplesSum> decode_samples_sum(std::string_view frame, std::string& problem) {
  return decoded(frame, problem, [](const Fields& fields) {
    SamplesSum sum;
    fields.require_type("samples_sum");
    fields.number("first", sum.first);
    fields.number("count", sum.count, 1);
    if (sum.count > SamplesSum::kMost) throw Wrong("'count' is too many samples");
    fields.number("names", sum.names);
    fields.number("labels", sum.labels);
    fields.number("pairs", sum.pairs);
    return sum;
  });
}

std::optional<FindMessage> decode_find(std::string_view frame, std::string& problem) {
  return decoded(frame, problem, [](const Fields& fields) {
    FindMessage message;
    fields.require_type("find_sample");
    fields.text("name", message.name);
    fields.number("from", message.from);
    if (fields.find("key") != nullptr) fields.number("key", message.key.emplace());
    if (fields.find("next") != nullptr) fields.number("next", message.next.emplace());
    return message;
  });
}

std::optional<WaitingMessage> decode_waiting(std::string_view frame, std::string& problem) {
  return decoded(frame, problem, [](const Fields& fields) {
    WaitingMessage waiting;
    fields.require_type("waiting");
    if (fields.find("message") != nullptr) fields.text("message", waiting.message.emplace());
    return waiting;
  });
}

}  // namespace batchflow::protocol
