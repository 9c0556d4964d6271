#include "runtime/protocol/feed_hello.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace batchflow::protocol {
namespace {

constexpr std::size_t kProblemMost = 200;  // it may have what was read in it

}  // namespace

std::string encode(const FeedHello& hello) {
  nlohmann::json json;
  json["producer"] = hello.producer;
  json["schema"] = hello.schema;
  json["waits"] = hello.waits;
  if (hello.instance != 0) json["instance"] = hello.instance;
  if (hello.counts) json["counts"] = true;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string problem_of(const FeedHello& hello) {
  if (hello.producer.empty()) return "a producer without a name";
  if (hello.producer.size() > kFeedTextMost)
    return fmt::format("a producer's name of {} bytes; it may have {}", hello.producer.size(),
                       kFeedTextMost);
  if (hello.schema.size() > kFeedTextMost)
    return fmt::format("a schema of {} bytes; it may have {}", hello.schema.size(), kFeedTextMost);
  return "";
}

std::optional<FeedHello> feed_hello_from(std::string_view text, std::string& problem) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    FeedHello hello{json.at("producer").get<std::string>(), json.at("schema").get<std::string>(),
                    json.at("waits").get<bool>(), json.value("instance", std::uint64_t{0}),
                    json.value("counts", false)};
    problem = problem_of(hello);
    if (problem.empty()) return hello;
  } catch (const nlohmann::json::exception& error) {
    problem = std::string(error.what()).substr(0, kProblemMost);
  }
  return std::nullopt;
}

}  // namespace batchflow::protocol
