// Answers a browser and Prometheus over HTTP: with a page at `/`, which asks for `/page.js` and
// `/page.css`, and with `/metrics`, `/status.json` and `/healthz`.
//
// It listens on loopback unless told otherwise. It only answers; nothing can be changed through it.
// A request must name this machine: a page from elsewhere is refused, even if its name was made to
// lead here. A client that is slow, or asks for much, costs a connection for a few seconds and
// nothing else. Of many such clients the oldest connections are closed, so that new requests are
// answered.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/service/http/snapshot.h"

namespace boost::asio {
class io_context;
}

namespace batchflow::service {

// Whether a request's Host is this machine: an address, localhost, or one of `names`. A page from
// elsewhere can make any other name lead here.
bool is_this_machine(std::string_view host, const std::vector<std::string>& names);

// What is wrong with the address of a server, on whatever machine; empty: nothing. The reader of
// node files asks it too, so that a check refuses what a start would.
std::string http_address_problem(const std::string& address);
// What to write instead.
inline constexpr std::string_view kHttpAddressRemedy =
    "write an address of this machine in numbers, as 127.0.0.1 or ::1";

// What there is to see, as it is when it is asked for.
struct HttpPages {
  // Of those that name jobs and folders: whether all names may be in it.
  using Named = std::function<std::string(bool all_names)>;
  Named page, status;
  std::function<std::string()> metrics;
  std::string key;  // which a client shows to see all names; empty: there is none

  template <class Now>
  static HttpPages make(std::function<Now(bool all_names)> snapshot, std::string key = {}) {
    return {[snapshot](bool all_names) { return status_page(snapshot(all_names)); },
            [snapshot](bool all_names) { return to_json(snapshot(all_names)); },
            [snapshot] { return metrics_text(snapshot(false)); }, std::move(key)};
  }
};

class HttpServer {
 public:
  // `hosts`: names of this machine beside its own. Throws ConfigError when it cannot listen there.
  HttpServer(boost::asio::io_context& loop, const std::string& address, std::uint16_t port,
             const std::vector<std::string>& hosts, HttpPages pages);
  ~HttpServer();
  std::uint16_t port() const;

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace batchflow::service
