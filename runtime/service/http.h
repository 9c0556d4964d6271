// What a browser and Prometheus ask for, over HTTP: `/` a page, `/metrics`, `/status.json`,
// `/healthz`.
//
// On loopback unless told otherwise. It only tells; nothing can be changed through it. A client
// that is slow, or asks for much, costs a connection for a few seconds and nothing else; of many
// such clients the oldest are closed, so that who asks is answered.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/service/snapshot.h"

namespace boost::asio {
class io_context;
}

namespace batchflow {

class HttpServer {
 public:
  // Throws ConfigError when nobody can listen there.
  HttpServer(boost::asio::io_context& loop, const std::string& address, std::uint16_t port,
             std::function<Snapshot()> snapshot);
  ~HttpServer();
  std::uint16_t port() const;

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace batchflow
