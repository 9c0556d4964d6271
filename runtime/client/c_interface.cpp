#include "runtime/client/c_interface.h"

#include <utility>

namespace batchflow::client {
namespace {

thread_local std::string message_of_thread;

}  // namespace

bf_status fail(bf_status status, std::string message) noexcept {
  message_of_thread = std::move(message);
  return status;
}

const char* last_error() noexcept {
  return message_of_thread.c_str();
}

}  // namespace batchflow::client
