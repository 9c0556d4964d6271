#include "runtime/protocol/feed_hello.h"

#include <nlohmann/json.hpp>

namespace batchflow::protocol {

std::string encode(const FeedHello& hello) {
  nlohmann::json json;
  json["producer"] = hello.producer;
  json["schema"] = hello.schema;
  json["waits"] = hello.waits;
  if (hello.instance != 0) json["instance"] = hello.instance;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<FeedHello> feed_hello_from(std::string_view text, std::string& problem) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    FeedHello hello{json.at("producer").get<std::string>(), json.at("schema").get<std::string>(),
                    json.at("waits").get<bool>(), json.value("instance", std::uint64_t{0})};
    if (!hello.producer.empty()) return hello;
    problem = "a producer without a name";
  } catch (const nlohmann::json::exception& error) {
    problem = error.what();
  }
  return std::nullopt;
}

}  // namespace batchflow::protocol
