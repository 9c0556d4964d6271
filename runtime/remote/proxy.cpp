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
#include "runtime/remote/stream.h"
#include "runtime/remote/token.h"

namespace batchflow {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSlab = 1;  // there is one
constexpr Bytes kPage = 4096;
// Beside what credits allow: one that is released while the next is on its way.
constexpr std::uint64_t kSlotsBeside = 1;

// Where batches lie until the loader has released them.
struct BatchSlots {
  Mapping memory;
  Bytes slot_bytes = 0;
  std::vector<std::uint64_t> free;               // slots
  std::map<std::uint64_t, std::uint64_t> taken;  // step: slot
};

}  // namespace

struct Proxy::Parts {
  Parts(std::unique_ptr<Stream> to_service, Channel to_loader)
      : stream(std::move(to_service)), loader(std::move(to_loader)) {}

  std::unique_ptr<Stream> stream;
  Channel loader;
  Descriptor stop{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::uint32_t batch_samples = 0;
  RingFiles files;
  Pace pace;
  BatchSpec spec;
  std::unique_ptr<RingWriter> down;
  std::unique_ptr<RingReader> up;
  BatchSlots slots;
  std::vector<std::byte> scratch;
  std::thread thread;

  void run() {
    while (stream->is_open() && loader.is_open()) {
      const bool may_sleep = !up || up->fall_asleep();
      pollfd wanted[] = {{stream->socket(), POLLIN, 0},
                         {loader.socket().get(), POLLIN, 0},
                         {stop.get(), POLLIN, 0},
                         {files.doorbell.get(), POLLIN, 0}};
      const bool pending = stream->has_pending();
      poll(wanted, files ? 4 : 3, may_sleep && !pending ? 1000 : 0);
      if (up) up->awake();
      if (wanted[2].revents != 0) break;
      if (files && wanted[3].revents != 0) silence_doorbell(files.doorbell);
      if (!take_from_loader() || !take_records()) break;
      if ((pending || wanted[0].revents != 0) && !take_from_service()) break;
    }
    loader.close(stream->problem());
    stream->shut("the job is done");
  }

  // ------------------------------------------------------------------------- from the loader ----

  bool take_from_loader() {
    while (auto frame = loader.receive(Channel::kAtOnce)) {
      std::string problem;
      if (message_type(frame->text, problem) == "join") {
        const auto request = decode_join(frame->text, problem);
        if (request) batch_samples = request->batch_samples;
      }
      if (!stream->write_text(frame->text)) return false;
    }
    return loader.is_open();
  }

  bool take_records() {
    if (!up) return true;
    while (const auto record = up->next()) {
      UpMessage message;
      std::string problem;
      if (!read_up(*record, message, problem)) return false;
      if (message.up.kind == UpKind::released) {
        const auto found = slots.taken.find(message.up.step);
        if (found != slots.taken.end()) {
          slots.free.push_back(found->second);
          slots.taken.erase(found);
        }
      }
      // The slab is the proxy's, as those of the service are the relay's.
      const bool passed_on = message.up.kind != UpKind::unmapped;
      if (passed_on && !stream->write(RemoteKind::record, *record)) return false;
      up->free_read();
    }
    return !up->broken();
  }

  // ------------------------------------------------------------------------ from the service ----

  bool take_from_service() {
    Stream::Head head;
    bool came = false;
    if (!stream->look_for_head(head, came)) return false;
    if (!came) return true;
    if (head.kind == RemoteKind::text && head.bytes > 0 && head.bytes <= kFrameMost) {
      std::string text(head.bytes, '\0');
      return stream->read(std::as_writable_bytes(std::span(text))) && take_text(text);
    }
    if (head.kind == RemoteKind::record && head.bytes <= kRecordMost && down) {
      scratch.resize(head.bytes);
      return stream->read(scratch) && take_record();
    }
    stream->shut("what came is no frame of a BatchFlow service");
    return false;
  }

  bool take_text(const std::string& text) {
    std::string problem;
    const auto deadline = Channel::Clock::now() + Stream::kPatience;
    auto answer = down ? std::optional<JoinAnswer>() : decode_join_answer(text, problem);
    if (!answer) return loader.send(text, {}, deadline);
    if (!make_room(*answer, problem)) {
      // This machine is short of it for a moment.
      loader.send(encode(Refused{"not_yet", problem}), {}, deadline);
      return false;
    }
    const int numbers[] = {files.service_file.get(), files.job_file.get(), files.doorbell.get(),
                           pace.file().get()};
    const int slab[] = {slab_file.get()};
    return loader.send(text, numbers, deadline) &&
           loader.send(encode(SlabMessage{kSlab, slots.memory.memory().size()}), slab, deadline);
  }

  bool make_room(JoinAnswer& answer, std::string& problem) {
    if (problem = answer.spec.problem(); !problem.empty()) return false;
    spec = std::move(answer.spec);
    const Bytes bytes = BlockLayout(spec, std::max(1u, batch_samples)).bytes;
    slots.slot_bytes = (bytes + kPage - 1) / kPage * kPage;
    const std::uint64_t count = std::uint64_t{answer.credits} + kSlotsBeside;
    if (slots.slot_bytes > (Bytes{1} << 50) / count) {
      problem = fmt::format("{} batches of {} bytes do not fit any memory", count, bytes);
      return false;
    }
    const Bytes all = slots.slot_bytes * count;
    slab_file = make_memory_file("batchflow-remote", all, problem);
    if (slab_file) slots.memory = Mapping::of(slab_file, all, true, problem);
    if (!slots.memory || !seal(slab_file, true, problem)) return false;
    files = make_rings(answer.ring_bytes, problem);
    if (files) pace = Pace::make(problem);
    if (!files || !pace) return false;
    for (std::uint64_t slot = count; slot > 0; --slot) slots.free.push_back(slot - 1);
    down = std::make_unique<RingWriter>(files.rings.down());
    up = std::make_unique<RingReader>(files.rings.up());
    return true;
  }

  bool take_record() {
    DownRecord record;
    std::string problem;
    if (!read_down(scratch, record, problem) ||
        (record.kind == DownKind::batch && !take_batch(record.batch, problem))) {
      stream->shut(problem);
      return false;
    }
    if (!down->write(scratch)) {
      stream->shut("more records than credits allow");
      return false;
    }
    if (down->publish()) down->wake();
    if (record.kind == DownKind::batch) pace.raise(record.batch.step + 1);
    return true;
  }

  // Its bytes go to a slot, and its record, in `scratch`, says so.
  bool take_batch(BatchRecord batch, std::string& problem) {
    Stream::Head head;
    if (!stream->read_head(head, Stream::Clock::now() + Stream::kPatience)) return false;
    // Not beyond what was asked for: then the layout fits the slot.
    if (batch.samples > batch_samples || slots.free.empty() || slots.taken.count(batch.step) != 0) {
      problem = fmt::format("a batch of {} samples at step {} that was not asked for",
                            batch.samples, batch.step);
      return false;
    }
    const Bytes bytes = BlockLayout(spec, batch.samples).bytes;
    if (head.kind != RemoteKind::payload || head.bytes != bytes) {
      problem = fmt::format("a batch of {} bytes where {} were to come", head.bytes, bytes);
      return false;
    }
    const std::uint64_t slot = slots.free.back();
    slots.free.pop_back();
    slots.taken[batch.step] = slot;
    const Bytes at = slot * slots.slot_bytes;
    if (!stream->read(slots.memory.memory().subspan(at, bytes))) return false;
    batch.slab = kSlab;
    batch.offset = at;
    batch.slot_samples = batch.samples;
    batch.from = 0;
    std::memcpy(scratch.data(), &batch, sizeof batch);
    return true;
  }

  Descriptor slab_file;
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
  [[maybe_unused]] const ssize_t told = write(parts_->stop.get(), &one, sizeof one);
  parts_->stream->shut("the job is done");
  parts_->thread.join();
}

std::string Proxy::problem() const {
  return parts_->stream->problem();
}

void Proxy::abandon() {
  // Neither joined nor closed: both are the parent's.
  [[maybe_unused]] Parts* const parents = parts_.release();
}

std::unique_ptr<Proxy> Proxy::connect(const std::string& address,
                                      Channel::Clock::time_point deadline, Channel& channel,
                                      std::string& problem) {
  RemoteAddress parsed;
  if (!parse_remote(address, parsed, problem)) return nullptr;
  const char* const file = std::getenv("BATCHFLOW_TOKEN_FILE");
  if (file == nullptr || *file == '\0') {
    problem =
        fmt::format("{}: no token; name the file that holds it by BATCHFLOW_TOKEN_FILE", address);
    return nullptr;
  }
  std::vector<std::string> tokens;
  if (problem = read_tokens(file, tokens); !problem.empty()) {
    problem = "BATCHFLOW_TOKEN_FILE: " + problem;
    return nullptr;
  }
  TlsContext tls;
  if (parsed.tls) {
    const char* const authorities = std::getenv("BATCHFLOW_TLS_CA");
    tls = TlsContext::of_client(authorities ? authorities : "", problem);
    if (!tls) return nullptr;
  }
  auto stream = Stream::connect(parsed, tls ? &tls : nullptr, deadline, problem);
  if (!stream) return nullptr;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
    problem = std::strerror(errno);
    return nullptr;
  }
  channel = Channel(Descriptor(pair[0]));
  Channel ours{Descriptor(pair[1])};
  if (!stream->write_text(token_message(tokens.front()))) {
    problem = fmt::format("{}: {}", address, stream->problem());
    return nullptr;
  }
  return std::unique_ptr<Proxy>(
      new Proxy(std::make_unique<Parts>(std::move(stream), std::move(ours))));
}

}  // namespace batchflow
