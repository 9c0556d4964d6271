// What the service manager is told: systemd's protocol, which is a datagram to $NOTIFY_SOCKET.
// Without one, nothing happens.
#pragma once

#include <string_view>

namespace batchflow::service {

// `READY=1`, `STATUS=...`, `STOPPING=1`, `WATCHDOG=1`; lines of them.
void notify_manager(std::string_view state);

}  // namespace batchflow::service
