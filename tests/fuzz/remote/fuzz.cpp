// Bytes over TCP. The first byte says which side gets the others: the service's relay, from a job
// that has shown a token; or a job's proxy, from a service. Whatever the bytes are, both sides end,
// and the records and batches they pass on are sound.
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "core/base/check.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/pace.h"
#include "runtime/protocol/records.h"
#include "runtime/protocol/ring_files.h"
#include "runtime/remote/proxy.h"
#include "runtime/remote/relay.h"

namespace batchflow::test {

namespace {

constexpr Bytes kRing = protocol::kRingLeast;
constexpr std::uint32_t kBatch = 8;

protocol::Channel::Clock::time_point soon() {
  return protocol::Channel::Clock::now() + std::chrono::seconds(10);
}

struct Pair {
  protocol::Descriptor one, other;
  Pair() {
    int ends[2];
    BF_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    one = protocol::Descriptor(ends[0]);
    other = protocol::Descriptor(ends[1]);
  }
};

void send_all(const protocol::Descriptor& socket, std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

// Admits the job as a service does, and reads the records that the relay passes on.
void from_job(std::span<const std::uint8_t> bytes) {
  Pair tcp, local;
  protocol::Channel service(std::move(local.other));
  std::atomic<std::size_t> large_frames{0};
  remote::Relay relay(std::make_unique<remote::TcpChannel>(std::move(tcp.other)),
                      protocol::Channel(std::move(local.one)), "fuzz", large_frames);
  std::string problem;
  protocol::RingFiles files = protocol::make_rings(kRing, problem);
  protocol::Pace pace = protocol::Pace::make(problem);
  BF_CHECK(files && pace);
  std::thread running([&relay] { relay.run(); });
  protocol::JoinAnswer answer;
  answer.job = "fuzz";
  answer.dataset_samples = 100;
  answer.credits = 2;
  answer.ring_bytes = kRing;
  answer.spec.fields.push_back({"data", batch::ElementType::i64, {4}, false});
  const int numbers[] = {files.service_file.get(), files.job_file.get(), files.doorbell.get(),
                         pace.file().get()};
  BF_CHECK(service.send(protocol::encode(answer), numbers, soon()));
  // The relay takes records as soon as it has passed this on.
  char first;
  BF_CHECK(recv(tcp.one.get(), &first, 1, 0) == 1);
  send_all(tcp.one, bytes);
  shutdown(tcp.one.get(), SHUT_WR);
  running.join();
  std::string said;
  while (auto frame = service.receive(protocol::Channel::kAtOnce)) {
    said = protocol::message_type(frame->text, problem);
    BF_CHECK(said == "hello" || said == "join" || said == "leave" || said == "sample_name" ||
             said == "class_name");
  }
  protocol::RingReader up(files.rings.from_job());
  protocol::JobMessage message;
  while (const auto record = up.next()) {
    BF_CHECK(protocol::read_job_record(*record, message, problem));
    BF_CHECK(message.record.kind != protocol::JobRecordKind::unmapped);
  }
  BF_CHECK(!up.broken());
}

// The address to which proxies connect, and the token that they show.
struct Listener {
  protocol::Descriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string address;
  Listener() {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    BF_CHECK(bind(socket.get(), reinterpret_cast<sockaddr*>(&any), size) == 0);
    BF_CHECK(listen(socket.get(), 1) == 0);
    BF_CHECK(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&any), &size) == 0);
    address = "tcp://127.0.0.1:" + std::to_string(ntohs(any.sin_port));
    char name[] = "/tmp/batchflow-token-XXXXXX";
    const protocol::Descriptor token(mkstemp(name));
    const std::string text(64, 't');
    BF_CHECK(write(token.get(), text.data(), text.size()) == 64);
    setenv("BATCHFLOW_TOKEN_FILE", name, 1);
    file = name;
  }
  ~Listener() { unlink(file.c_str()); }
  std::string file;
};

void check_batches(const protocol::Rings& rings, Bytes slab) {
  protocol::RingReader down(rings.to_job());
  protocol::ServiceMessage record;
  std::string problem;
  while (const auto bytes = down.next()) {
    BF_CHECK(protocol::read_service_record(*bytes, record, problem));
    if (record.kind != protocol::ServiceRecordKind::batch) continue;
    BF_CHECK(record.batch.samples <= kBatch && record.batch.offset < slab);
  }
  BF_CHECK(!down.broken());
}

void from_service(std::span<const std::uint8_t> bytes) {
  static const Listener listener;
  protocol::Channel loader;
  std::string problem;
  const auto proxy = remote::Proxy::connect(listener.address, soon(), loader, problem);
  BF_CHECK(proxy != nullptr);
  const protocol::Descriptor service(accept(listener.socket.get(), nullptr, nullptr));
  protocol::JoinRequest request;
  request.dataset = "rows";
  request.batch_samples = kBatch;
  BF_CHECK(loader.send(protocol::encode(request), {}, soon()));
  // The proxy knows the size of batches as soon as it has passed this on.
  const std::size_t before = protocol::encode(request).size() + 16;
  std::string passed;
  while (passed.size() < before || passed.find("\"join\"") == passed.npos) {
    char part[4096];
    const ssize_t got = recv(service.get(), part, sizeof part, 0);
    BF_CHECK(got > 0);
    passed.append(part, static_cast<std::size_t>(got));
  }
  send_all(service, bytes);
  shutdown(service.get(), SHUT_WR);
  protocol::Rings rings;
  Bytes slab = 0;
  while (auto frame = loader.receive(soon())) {
    if (frame->descriptors.size() == 4) {
      const auto answer = protocol::decode_join_answer(frame->text, problem);
      BF_CHECK(answer.has_value());
      rings = protocol::map_rings(frame->descriptors[0], frame->descriptors[1], answer->ring_bytes,
                                  problem);
      BF_CHECK(static_cast<bool>(rings));
    }
    if (const auto message = protocol::decode_slab(frame->text, problem)) slab = message->bytes;
  }
  BF_CHECK(!loader.is_open());
  if (rings) check_batches(rings, slab);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> bytes(data + 1, size - 1);
  data[0] % 2 == 0 ? from_job(bytes) : from_service(bytes);
  return 0;
}

}  // namespace batchflow::test
