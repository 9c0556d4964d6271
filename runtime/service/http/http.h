// What a browser and Prometheus ask for, over HTTP: `/` a page, `/metrics`, `/status.json`,
// `/healthz`.
//
// On loopback unless told otherwise. It only tells; nothing can be changed through it. Who asks
// names this machine: a page of elsewhere, whose name was made to lead here, is refused. A client
// that is slow, or asks for much, costs a connection for a few seconds and nothing else; of many
// such clients the oldest are closed, so that who asks is answered.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/service/http/snapshot.h"

namespace boost::asio {
class io_context;
}

namespace batchflow::service {

// Whether a request's Host is this machine: an address, localhost, or one of `names`. Any name can
// be made to lead here; an address or a name that is this machine's was meant.
bool is_this_machine(std::string_view host, const std::vector<std::string>& names);

class HttpServer {
 public:
  // `hosts`: names of this machine beside its own. Throws ConfigError when nobody can listen there.
  HttpServer(boost::asio::io_context& loop, const std::string& address, std::uint16_t port,
             const std::vector<std::string>& hosts, std::function<Snapshot()> snapshot);
  ~HttpServer();
  std::uint16_t port() const;

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace batchflow::service
