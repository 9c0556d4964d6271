#include "runtime/service/http/http.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cctype>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/service/http/page_key.h"

namespace batchflow::service {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;

constexpr std::size_t kConnectionsMost = 256;
constexpr std::chrono::seconds kAskWithin{2};
constexpr std::chrono::seconds kAnswerWithin{10};
constexpr std::chrono::milliseconds kAcceptLater{100};
// The page's own script and style, and nothing that stands in a text of it.
constexpr const char* kMayLoad =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

bool accept_fails() {
  return BF_FAILPOINT("service.http.accept");
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool is_address(std::string_view text) {
  beast::error_code failed;
  asio::ip::make_address(std::string(text), failed);
  return !failed;
}

std::string own_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

bool is_this_machine(std::string_view host, const std::vector<std::string>& names) {
  const std::size_t bracket = host.starts_with('[') ? host.find(']') : 0;
  if (bracket == std::string_view::npos) return false;
  if (bracket > 0) return is_address(host.substr(1, bracket - 1));
  std::string name = lower(host.substr(0, host.find(':')));
  if (name.ends_with('.')) name.pop_back();
  return is_address(name) || name == "localhost" ||
         std::any_of(names.begin(), names.end(),
                     [&](const std::string& one) { return lower(one) == name; });
}

std::string http_address_problem(const std::string& address) {
  return is_address(address) ? "" : fmt::format("'{}' is no address", address);
}

struct HttpServer::Parts : std::enable_shared_from_this<HttpServer::Parts> {
  struct Client;

  Tcp::acceptor acceptor;
  asio::steady_timer later;
  HttpPages pages;
  std::vector<std::string> hosts;
  std::vector<Client*> clients;  // the oldest first
  bool ended = false;

  Parts(asio::io_context& loop, HttpPages what, std::vector<std::string> names)
      : acceptor(loop), later(loop), pages(std::move(what)), hosts(std::move(names)) {
    hosts.push_back(own_name());
  }

  struct Client : std::enable_shared_from_this<Client> {
    beast::tcp_stream stream;
    beast::flat_buffer buffer{8192};
    http::request_parser<http::empty_body> parser;
    http::response<http::string_body> response;
    std::shared_ptr<Parts> server;
    bool has_asked = false;

    Client(Tcp::socket socket, std::shared_ptr<Parts> of)
        : stream(std::move(socket)), server(std::move(of)) {
      server->clients.push_back(this);
    }
    ~Client() { std::erase(server->clients, this); }

    void serve() {
      parser.header_limit(8192);
      stream.expires_after(kAskWithin);
      http::async_read(stream, buffer, parser,
                       [self = shared_from_this()](beast::error_code error, std::size_t) {
                         if (!error && !self->server->ended) self->answer();
                       });
    }
    // Every browser says which host it asks. Programs that do not are no browsers.
    bool is_meant() const {
      const auto host = parser.get().find(http::field::host);
      return host == parser.get().end() ||
             is_this_machine(std::string_view(host->value().data(), host->value().size()),
                             server->hosts);
    }
    // A key that came over a network may have been read there.
    bool is_from_here() const {
      beast::error_code failed;
      const auto from = stream.socket().remote_endpoint(failed);
      return !failed && from.address().is_loopback();
    }
    void answer() {
      has_asked = true;
      stream.expires_after(kAnswerWithin);
      const auto& request = parser.get();
      const std::string_view target(request.target().data(), request.target().size());
      const std::string_view path = target.substr(0, target.find('?'));
      const KeyShown key = key_shown(target, server->pages.key);
      response.version(request.version());
      response.keep_alive(false);
      response.set(http::field::cache_control, "no-store");
      response.set(http::field::x_frame_options, "DENY");
      response.set("X-Content-Type-Options", "nosniff");
      response.set("Referrer-Policy", "no-referrer");
      response.set("Content-Security-Policy", kMayLoad);
      const auto is = [&](http::status status, const char* type, std::string body) {
        response.result(status);
        response.set(http::field::content_type, type);
        response.body() = std::move(body);
      };
      const bool reads =
          request.method() == http::verb::get || request.method() == http::verb::head;
      if (!reads) {
        is(http::status::method_not_allowed, "text/plain", "only GET is understood\n");
      } else if (!is_meant()) {
        is(http::status::misdirected_request, "text/plain",
           "this machine is not called so; ask for its address, or list the name in the service's "
           "node file (http: {hosts: [NAME]})\n");
      } else if (key == KeyShown::wrong || (key == KeyShown::right && !is_from_here())) {
        is(http::status::forbidden, "text/plain",
           "this key is not the service's, which makes one when it starts, or it came from another "
           "machine; `batchflowctl status` prints the page's address\n");
      } else if (path == "/") {
        is(http::status::ok, "text/html; charset=utf-8",
           server->pages.page(key == KeyShown::right));
      } else if (path == "/page.js") {
        is(http::status::ok, "text/javascript; charset=utf-8", std::string(page_script()));
      } else if (path == "/page.css") {
        is(http::status::ok, "text/css; charset=utf-8", std::string(page_style()));
      } else if (path == "/metrics") {
        is(http::status::ok, "text/plain; version=0.0.4; charset=utf-8", server->pages.metrics());
      } else if (path == "/status.json") {
        is(http::status::ok, "application/json", server->pages.status(key == KeyShown::right));
      } else if (path == "/healthz") {
        is(http::status::ok, "text/plain", "ok\n");
      } else {
        is(http::status::not_found, "text/plain",
           "there are /, /metrics, /status.json and /healthz\n");
      }
      response.prepare_payload();
      if (request.method() == http::verb::head) response.body().clear();
      http::async_write(stream, response,
                        [self = shared_from_this()](beast::error_code, std::size_t) {
                          beast::error_code ignored;
                          self->stream.socket().shutdown(Tcp::socket::shutdown_send, ignored);
                        });
    }
  };

  // To make room for a new client, the oldest that has not asked yet is closed: a health check must
  // not wait for clients that never ask. If there is none, it is the oldest that does not take its
  // answer.
  void make_room() {
    if (clients.size() < kConnectionsMost) return;
    auto leaves = std::find_if(clients.begin(), clients.end(),
                               [](const Client* one) { return !one->has_asked; });
    if (leaves == clients.end()) leaves = clients.begin();
    (*leaves)->stream.close();
    clients.erase(leaves);
  }

  void accept_later() {
    later.expires_after(kAcceptLater);
    later.async_wait([self = shared_from_this()](beast::error_code error) {
      if (!error && !self->ended) self->accept();
    });
  }

  void accept() {
    acceptor.async_accept([self = shared_from_this()](beast::error_code error, Tcp::socket socket) {
      if (self->ended || error == asio::error::operation_aborted) return;
      if (accept_fails()) error = asio::error::no_descriptors;
      // Trying again at once, while there are none, would take a core.
      if (error && error != asio::error::connection_aborted) return self->accept_later();
      if (!error) {
        self->make_room();
        std::make_shared<Client>(std::move(socket), self)->serve();
      }
      self->accept();
    });
  }
};

HttpServer::HttpServer(asio::io_context& loop, const std::string& address, std::uint16_t port,
                       const std::vector<std::string>& hosts, HttpPages pages)
    : parts_(std::make_shared<Parts>(loop, std::move(pages), hosts)) {
  if (const std::string problem = http_address_problem(address); !problem.empty())
    throw ConfigError(fmt::format("http: {}; {}", problem, kHttpAddressRemedy));
  beast::error_code error;
  const auto where = asio::ip::make_address(address);
  parts_->acceptor.open(Tcp::endpoint(where, port).protocol(), error);
  if (!error) parts_->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) parts_->acceptor.bind(Tcp::endpoint(where, port), error);
  if (!error) parts_->acceptor.listen(Tcp::acceptor::max_listen_connections, error);
  if (error)
    throw ConfigError(fmt::format("{}:{}: no page and no metrics can be served there: {}; {}",
                                  address, port, error.message(),
                                  error == boost::system::errc::address_not_available
                                      ? kHttpAddressRemedy
                                      : "choose another port (--http), or -1 for none"));
  parts_->accept();
}

HttpServer::~HttpServer() {
  parts_->ended = true;
  beast::error_code ignored;
  parts_->acceptor.close(ignored);
}

std::uint16_t HttpServer::port() const {
  beast::error_code ignored;
  return parts_->acceptor.local_endpoint(ignored).port();
}

}  // namespace batchflow::service
