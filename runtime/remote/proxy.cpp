#include "runtime/remote/proxy.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/pace.h"
#include "runtime/protocol/records.h"
#include "runtime/protocol/ring_files.h"
#include "runtime/remote/remote_options.h"
#include "runtime/remote/tcp_channel.h"

namespace batchflow::remote {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSlab = 1;  // the number of the only slab
constexpr Bytes kPage = 4096;
// Beyond the slots that credits need: a batch is released while the next is on its way.
constexpr std::uint64_t kExtraSlots = 1;

// The memory of batches until the loader has released them.
struct BatchSlots {
  protocol::Mapping memory;
  Bytes slot_bytes = 0;
  std::vector<std::uint64_t> free;               // slots
  std::map<std::uint64_t, std::uint64_t> taken;  // by step, the slot
};

}  // namespace

struct Proxy::Parts {
  Parts(std::unique_ptr<TcpChannel> to_remote, protocol::Channel to_local)
      : service(std::move(to_remote)), loader(std::move(to_local)) {}

  std::unique_ptr<TcpChannel> service;
  protocol::Channel loader;
  protocol::Descriptor stop{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::uint32_t batch_samples = 0;
  protocol::RingFiles files;
  protocol::Pace pace;
  batch::BatchSpec spec;
  std::unique_ptr<protocol::RingWriter> to_loader;
  std::unique_ptr<protocol::RingReader> from_loader;
  BatchSlots slots;
  std::vector<std::byte> scratch;
  std::thread thread;

  void run() {
    while (service->is_open() && loader.is_open()) {
      const bool may_sleep = !from_loader || from_loader->fall_asleep();
      pollfd wanted[] = {{service->socket(), POLLIN, 0},
                         {loader.socket().get(), POLLIN, 0},
                         {stop.get(), POLLIN, 0},
                         {files.doorbell.get(), POLLIN, 0}};
      const bool pending = service->has_pending();
      poll(wanted, files ? 4 : 3, may_sleep && !pending ? 1000 : 0);
      if (from_loader) from_loader->awake();
      if (wanted[2].revents != 0) break;
      if (files && wanted[3].revents != 0) protocol::silence_doorbell(files.doorbell);
      if (!take_from_loader() || !take_records()) break;
      if ((pending || wanted[0].revents != 0) && !take_from_service()) break;
    }
    loader.close(service->problem());
    service->shut("the job is done");
  }

  // ------------------------------------------------------------------------- from the loader ----

  bool take_from_loader() {
    while (auto frame = loader.receive(protocol::Channel::kAtOnce)) {
      std::string problem;
      if (protocol::message_type(frame->text, problem) == "join") {
        const auto request = protocol::decode_join(frame->text, problem);
        if (request) batch_samples = request->batch_samples;
      }
      if (!service->write_text(frame->text)) return false;
    }
    return loader.is_open();
  }

  bool take_records() {
    if (!from_loader) return true;
    while (const auto record = from_loader->next()) {
      protocol::JobMessage message;
      std::string problem;
      if (!protocol::read_job_record(*record, message, problem)) return false;
      if (message.record.kind == protocol::JobRecordKind::released) {
        const auto found = slots.taken.find(message.record.step);
        if (found != slots.taken.end()) {
          slots.free.push_back(found->second);
          slots.taken.erase(found);
        }
      }
      // The proxy unmaps its slab itself; the service's slabs are mapped by the relay.
      const bool passed_on = message.record.kind != protocol::JobRecordKind::unmapped;
      if (passed_on && !service->write(RemoteKind::record, *record)) return false;
      from_loader->free_read();
    }
    return !from_loader->broken();
  }

  // ------------------------------------------------------------------------ from the service ----

  bool take_from_service() {
    TcpChannel::Head head;
    bool came = false;
    if (!service->look_for_head(head, came)) return false;
    if (!came) return true;
    if (head.kind == RemoteKind::text && head.bytes > 0 && head.bytes <= protocol::kFrameMost) {
      std::string text(head.bytes, '\0');
      return service->read(std::as_writable_bytes(std::span(text))) && take_text(text);
    }
    if (head.kind == RemoteKind::record && head.bytes <= protocol::kRecordMost && to_loader) {
      scratch.resize(head.bytes);
      return service->read(scratch) && take_record();
    }
    service->shut("it sent what is no frame of a BatchFlow service");
    return false;
  }

  bool take_text(const std::string& text) {
    std::string problem;
    const auto deadline = protocol::Channel::Clock::now() + TcpChannel::kPatience;
    auto answer = to_loader ? std::optional<protocol::JoinAnswer>()
                            : protocol::decode_join_answer(text, problem);
    if (!answer) return loader.send(text, {}, deadline);
    if (!make_room(*answer, problem)) {
      // This machine may be short of memory only for a moment.
      loader.send(protocol::encode(protocol::Refused{"not_yet", problem}), {}, deadline);
      return false;
    }
    const int numbers[] = {files.service_file.get(), files.job_file.get(), files.doorbell.get(),
                           pace.file().get()};
    const int slab[] = {slab_file.get()};
    return loader.send(text, numbers, deadline) &&
           loader.send(protocol::encode(protocol::SlabMessage{kSlab, slots.memory.memory().size()}),
                       slab, deadline);
  }

  bool make_room(protocol::JoinAnswer& answer, std::string& problem) {
    if (problem = answer.spec.problem(); !problem.empty()) return false;
    spec = std::move(answer.spec);
    const Bytes bytes = batch::BlockLayout(spec, std::max(1u, batch_samples)).bytes;
    slots.slot_bytes = (bytes + kPage - 1) / kPage * kPage;
    const std::uint64_t count = std::uint64_t{answer.credits} + kExtraSlots;
    if (slots.slot_bytes > (Bytes{1} << 50) / count) {
      problem = fmt::format("{} batches of {} bytes do not fit any memory", count, bytes);
      return false;
    }
    const Bytes all = slots.slot_bytes * count;
    slab_file = protocol::make_memory_file("batchflow-remote", all, problem);
    if (slab_file) slots.memory = protocol::Mapping::map_file(slab_file, all, true, problem);
    if (!slots.memory || !protocol::seal(slab_file, true, problem)) return false;
    files = protocol::make_rings(answer.ring_bytes, problem);
    if (files) pace = protocol::Pace::make(problem);
    if (!files || !pace) return false;
    for (std::uint64_t slot = count; slot > 0; --slot) slots.free.push_back(slot - 1);
    to_loader = std::make_unique<protocol::RingWriter>(files.rings.to_job());
    from_loader = std::make_unique<protocol::RingReader>(files.rings.from_job());
    return true;
  }

  bool take_record() {
    protocol::ServiceMessage record;
    std::string problem;
    if (!protocol::read_service_record(scratch, record, problem) ||
        (record.kind == protocol::ServiceRecordKind::batch && !take_batch(record.batch, problem))) {
      service->shut(problem);
      return false;
    }
    if (!to_loader->write(scratch)) {
      service->shut("it sent more records than credits allow");
      return false;
    }
    if (to_loader->publish()) to_loader->wake();
    if (record.kind == protocol::ServiceRecordKind::batch) pace.raise(record.batch.step + 1);
    return true;
  }

  // Reads the bytes of a batch into a slot, and changes its record, in `scratch`, to name the slot.
  bool take_batch(protocol::BatchRecord batch, std::string& problem) {
    TcpChannel::Head head;
    if (!service->read_head(head, TcpChannel::Clock::now() + TcpChannel::kPatience)) return false;
    // A batch of at most the size that was asked for fits the slot.
    if (batch.samples > batch_samples || slots.free.empty() || slots.taken.count(batch.step) != 0) {
      problem = fmt::format("it sent a batch of {} samples at step {}, which was not asked for",
                            batch.samples, batch.step);
      return false;
    }
    const Bytes bytes = batch::BlockLayout(spec, batch.samples).bytes;
    if (head.kind != RemoteKind::payload || head.bytes != bytes) {
      problem = fmt::format("it sent a batch of {} bytes, not of {}", head.bytes, bytes);
      return false;
    }
    const std::uint64_t slot = slots.free.back();
    slots.free.pop_back();
    slots.taken[batch.step] = slot;
    const Bytes at = slot * slots.slot_bytes;
    if (!service->read(slots.memory.memory().subspan(at, bytes))) return false;
    batch.slab = kSlab;
    batch.offset = at;
    batch.slot_samples = batch.samples;
    batch.from = 0;
    std::memcpy(scratch.data(), &batch, sizeof batch);
    return true;
  }

  protocol::Descriptor slab_file;
};

Proxy::Proxy(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {
  parts_->thread = std::thread([this] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    parts_->run();
  });
}

Proxy::~Proxy() {
  if (!parts_) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(parts_->stop.get(), &one, sizeof one);
  parts_->service->shut("the job is done");
  parts_->thread.join();
}

std::string Proxy::problem() const {
  return parts_->service->problem();
}

void Proxy::abandon() {
  // The thread and the descriptors belong to the parent process: they are not joined nor closed.
  [[maybe_unused]] Parts* const parents = parts_.release();
}

std::optional<RemoteAccess> remote_access(const std::string& address, std::string& problem) {
  RemoteAccess access;
  access.said = address;
  if (!parse_remote(address, access.address, problem)) return std::nullopt;
  const char* const file = std::getenv("BATCHFLOW_TOKEN_FILE");
  if (file == nullptr || *file == '\0') {
    problem =
        fmt::format("{}: no token; name the file that holds it by BATCHFLOW_TOKEN_FILE", address);
    return std::nullopt;
  }
  std::vector<std::string> tokens;
  if (problem = read_tokens(file, tokens); !problem.empty()) {
    problem = "BATCHFLOW_TOKEN_FILE: " + problem;
    return std::nullopt;
  }
  access.token = tokens.front();
  if (access.address.tls) {
    const char* const authorities = std::getenv("BATCHFLOW_TLS_CA");
    access.tls = TlsContext::of_client(authorities ? authorities : "", problem);
    if (!access.tls) return std::nullopt;
  }
  return access;
}

std::unique_ptr<TcpChannel> connect_with_token(const RemoteAccess& access,
                                               TcpChannel::Clock::time_point deadline,
                                               std::string& problem, std::string_view as,
                                               std::string_view feed) {
  auto service =
      TcpChannel::connect(access.address, access.tls ? &access.tls : nullptr, deadline, problem);
  if (!service || service->write_text(token_message(access.token, as, feed))) return service;
  problem = fmt::format("{}: {}", access.said, service->problem());
  return nullptr;
}

std::unique_ptr<Proxy> Proxy::connect(const std::string& address,
                                      protocol::Channel::Clock::time_point deadline,
                                      protocol::Channel& channel, std::string& problem) {
  const std::optional<RemoteAccess> access = remote_access(address, problem);
  if (!access) return nullptr;
  auto service = connect_with_token(*access, deadline, problem);
  if (!service) return nullptr;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
    problem = std::strerror(errno);
    return nullptr;
  }
  channel = protocol::Channel(protocol::Descriptor(pair[0]));
  protocol::Channel ours{protocol::Descriptor(pair[1])};
  return std::unique_ptr<Proxy>(
      new Proxy(std::make_unique<Parts>(std::move(service), std::move(ours))));
}

}  // namespace batchflow::remote
