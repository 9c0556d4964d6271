// Reports to the service manager with systemd's protocol: a datagram to $NOTIFY_SOCKET. Without
// one, nothing happens.
#pragma once

#include <string_view>

namespace batchflow::service {

// Lines of `READY=1`, `STATUS=...`, `STOPPING=1`, `WATCHDOG=1`.
void notify_manager(std::string_view state);

}  // namespace batchflow::service
