#include "runtime/service/http.h"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config_error.h"
#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;

constexpr std::size_t kConnectionsMost = 256;
constexpr std::chrono::seconds kAskWithin{2};
constexpr std::chrono::seconds kAnswerWithin{10};
constexpr std::chrono::milliseconds kAcceptLater{100};

bool accept_fails() {
  return BF_FAILPOINT("service.http.accept");
}

}  // namespace

struct HttpServer::Parts : std::enable_shared_from_this<HttpServer::Parts> {
  struct Client;

  Tcp::acceptor acceptor;
  asio::steady_timer later;
  std::function<Snapshot()> snapshot;
  std::vector<Client*> clients;  // who came first stands first
  bool ended = false;

  Parts(asio::io_context& loop, std::function<Snapshot()> what)
      : acceptor(loop), later(loop), snapshot(std::move(what)) {}

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
    void answer() {
      has_asked = true;
      stream.expires_after(kAnswerWithin);
      const auto& request = parser.get();
      const std::string_view target(request.target().data(), request.target().size());
      const std::string_view path = target.substr(0, target.find('?'));
      response.version(request.version());
      response.keep_alive(false);
      response.set(http::field::cache_control, "no-store");
      response.set(http::field::x_frame_options, "DENY");
      const auto is = [&](http::status status, const char* type, std::string body) {
        response.result(status);
        response.set(http::field::content_type, type);
        response.body() = std::move(body);
      };
      const bool reads =
          request.method() == http::verb::get || request.method() == http::verb::head;
      if (!reads) {
        is(http::status::method_not_allowed, "text/plain", "only GET is understood\n");
      } else if (path == "/") {
        is(http::status::ok, "text/html; charset=utf-8", status_page(server->snapshot()));
      } else if (path == "/metrics") {
        is(http::status::ok, "text/plain; version=0.0.4; charset=utf-8",
           metrics_text(server->snapshot()));
      } else if (path == "/status.json") {
        is(http::status::ok, "application/json", to_json(server->snapshot()));
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

  // Who has not asked yet makes room for who comes, the oldest first: a health check is not to wait
  // for those who never will. Then the oldest who does not take his answer.
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
      // Asking again at once, while there are none, would take a core.
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
                       std::function<Snapshot()> snapshot)
    : parts_(std::make_shared<Parts>(loop, std::move(snapshot))) {
  beast::error_code error;
  const auto where = asio::ip::make_address(address, error);
  if (!error) parts_->acceptor.open(Tcp::endpoint(where, port).protocol(), error);
  if (!error) parts_->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) parts_->acceptor.bind(Tcp::endpoint(where, port), error);
  if (!error) parts_->acceptor.listen(Tcp::acceptor::max_listen_connections, error);
  if (error)
    throw ConfigError(
        fmt::format("{}:{}: no page and no metrics can be served there: {}; choose "
                    "another port (--http), or -1 for none",
                    address, port, error.message()));
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

}  // namespace batchflow
