// Messages: each decoder takes any bytes, and a message that it accepts is encoded to the same text
// again.
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "runtime/protocol/messages.h"

namespace batchflow::test {

namespace {

template <class Decode>
void try_decoder(std::string_view frame, Decode decode) {
  std::string problem;
  const auto message = decode(frame, problem);
  BF_CHECK(message.has_value() == problem.empty());
  if (!message) return;
  const std::string text = protocol::encode(*message);
  const auto again = decode(text, problem);
  BF_CHECK(again && protocol::encode(*again) == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view frame(reinterpret_cast<const char*>(data), size);
  std::string problem;
  BF_CHECK(protocol::message_type(frame, problem).empty() == !problem.empty());
  try_decoder(frame, protocol::decode_hello);
  try_decoder(frame, protocol::decode_welcome);
  try_decoder(frame, protocol::decode_join);
  try_decoder(frame, protocol::decode_join_answer);
  try_decoder(frame, protocol::decode_refused);
  try_decoder(frame, protocol::decode_slab);
  try_decoder(frame, protocol::decode_name);
  return 0;
}

}  // namespace batchflow::test
