#include <algorithm>
#include <charconv>

#include "runtime/objects/object_store.h"
#include "runtime/objects/text.h"

namespace batchflow::objects {
namespace {

// A whole number of the environment, within bounds; else `usual`.
unsigned number_of(const char* name, unsigned usual, unsigned most) {
  const std::string text = variable(name);
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc{} && end == text.data() + text.size() && value > 0;
  return good ? std::min(value, most) : usual;
}

std::chrono::milliseconds seconds_of(const char* name, std::chrono::milliseconds usual) {
  return std::chrono::seconds(number_of(name, static_cast<unsigned>(usual.count() / 1000), 86'400));
}

}  // namespace

StoreSettings StoreSettings::of_environment() {
  StoreSettings settings;
  settings.tries = number_of("BATCHFLOW_STORE_TRIES", settings.tries, 1000);
  settings.reads = number_of("BATCHFLOW_STORE_READS", settings.reads, 1024);
  settings.idle = seconds_of("BATCHFLOW_STORE_IDLE_S", settings.idle);
  settings.request = seconds_of("BATCHFLOW_STORE_REQUEST_S", settings.request);
  return settings;
}

}  // namespace batchflow::objects
