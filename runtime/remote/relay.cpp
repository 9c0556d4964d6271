#include "runtime/remote/relay.h"

#include <fcntl.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "runtime/batch/batch_parts.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/memory/out_of_memory.h"
#include "runtime/protocol/messages.h"

namespace batchflow::remote {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookEvery = 50ms;
constexpr std::size_t kSlabsMost = 65536;
// A frame of more takes of what all ranks together may have of these.
constexpr std::size_t kSmallFrame = std::size_t{64} << 10;
constexpr std::size_t kLargeFramesMost = std::size_t{16} << 20;

// As long as a large frame is there.
class LargeFrame {
 public:
  LargeFrame(std::atomic<std::size_t>& all, std::size_t bytes)
      : all_(all), bytes_(bytes > kSmallFrame ? bytes : 0) {
    fits_ = all_.fetch_add(bytes_) + bytes_ <= kLargeFramesMost;
  }
  ~LargeFrame() { all_ -= bytes_; }
  LargeFrame(const LargeFrame&) = delete;
  bool fits() const { return fits_ || bytes_ == 0; }

 private:
  std::atomic<std::size_t>& all_;
  const std::size_t bytes_;
  bool fits_ = true;
};

protocol::Channel second_of(const protocol::Channel& channel) {
  return protocol::Channel(protocol::Descriptor(fcntl(channel.socket().get(), F_DUPFD_CLOEXEC, 0)));
}

}  // namespace

Relay::Relay(std::unique_ptr<TcpChannel> job, protocol::Channel local, std::string from,
             std::atomic<std::size_t>& large_frames)
    : job_(std::move(job)),
      large_frames_(large_frames),
      from_(std::move(from)),
      to_service_(second_of(local)),
      from_service_(std::move(local)) {}

void Relay::run() {
  const memory::WaitsForMemory scope;  // two threads are to end together
  std::thread of_service;
  try {
    if (BF_FAILPOINT("remote.relay.thread"))
      throw std::system_error(EAGAIN, std::generic_category(), "a thread");
    of_service = std::thread([this] {
      pthread_setname_np(pthread_self(), "bf-relay");
      carry(&Relay::listen_to_service, "the service is done");
    });
  } catch (const std::system_error& error) {
    return job_->shut(error.what());
  }
  carry(&Relay::listen_to_job, "the job is done");
  of_service.join();
}

void Relay::carry(void (Relay::*way)(), std::string_view over) {
  try {
    const memory::MayRunOutOfMemory scope;
    if (BF_FAILPOINT("remote.relay.new")) throw std::bad_alloc();
    (this->*way)();
  } catch (const std::bad_alloc&) {
    over = "the service's machine has no memory for it";
  }
  job_->shut(over);
}

// ---------------------------------------------------------------------------- from the job ----

void Relay::listen_to_job() {
  std::string text;
  std::vector<std::byte> record;
  TcpChannel::Head head;
  while (job_->read_head(head, TcpChannel::Clock::time_point::max())) {
    if (head.kind == RemoteKind::text && head.bytes > 0 && head.bytes <= protocol::kFrameMost) {
      const LargeFrame frame(large_frames_, head.bytes);
      if (!frame.fits()) return job_->shut("remote jobs' messages take too much memory now");
      text.resize(head.bytes);
      if (!job_->read(std::as_writable_bytes(std::span(text))) || !take_text(text)) return;
      if (text.size() > kSmallFrame) std::string().swap(text);
    } else if (head.kind == RemoteKind::record && head.bytes <= protocol::kRecordMost) {
      record.resize(head.bytes);
      if (!job_->read(record) || !take_record(record)) return;
    } else {
      return job_->shut(fmt::format("a frame of kind {} and {} bytes",
                                    static_cast<unsigned>(head.kind), head.bytes));
    }
  }
}

// Passes on messages that a job may send, and no commands to the service. A path would be one of
// this machine, which a remote job may not name.
bool Relay::take_text(const std::string& text) {
  std::string problem;
  const std::string type = protocol::message_type(text, problem);
  if (type == "hello") {
    std::optional<protocol::Hello> hello = protocol::decode_hello(text, problem);
    if (!hello) return refuse("bad_request", problem);
    hello->from = from_;
    return to_service_.send(protocol::encode(*hello), {},
                            protocol::Channel::Clock::now() + TcpChannel::kPatience);
  }
  if (type == "join") {
    const auto request = protocol::decode_join(text, problem);
    if (!request) return refuse("bad_request", problem);
    if (request->dataset.starts_with('/') || request->dataset.starts_with('.'))
      return refuse("not_allowed",
                    fmt::format("dataset {}: a job on another machine cannot name a path of the "
                                "service's; let the service serve it (--dataset NAME=PATH), and "
                                "write that name",
                                request->dataset));
  } else if (type != "leave" && type != "sample_name" && type != "class_name" &&
             type != "samples_sum" && type != "waiting") {
    return refuse("not_allowed",
                  fmt::format("a remote job may not send a message of type '{}'", type));
  }
  return to_service_.send(text, {}, protocol::Channel::Clock::now() + TcpChannel::kPatience);
}

bool Relay::refuse(std::string_view why, std::string message) {
  job_->write_text(protocol::encode(protocol::Refused{std::string(why), std::move(message)}));
  return false;
}

bool Relay::take_record(std::span<const std::byte> record) {
  protocol::JobMessage message;
  std::string problem;
  if (!protocol::read_job_record(record, message, problem)) {
    job_->shut(problem);
    return false;
  }
  if (message.record.kind == protocol::JobRecordKind::unmapped) {
    job_->shut("it sent a record about a slab, which a remote job does not have");
    return false;
  }
  return write_to_service(record);
}

// Called by both threads.
bool Relay::write_to_service(std::span<const std::byte> record) {
  const auto until = TcpChannel::Clock::now() + TcpChannel::kPatience;
  while (job_->is_open() && TcpChannel::Clock::now() < until) {
    {
      const std::lock_guard lock(from_job_mutex_);
      if (!from_job_ || from_job_->broken()) break;
      if (from_job_->write(record)) {
        if (from_job_->publish()) protocol::ring_doorbell(admitted_->doorbell);
        return true;
      }
    }
    std::this_thread::sleep_for(1ms);  // the service has not read earlier ones yet
  }
  job_->shut("a record came before the job was admitted, or found no room");
  return false;
}

// ------------------------------------------------------------------------ from the service ----

void Relay::listen_to_service() {
  const auto over = [&](std::string_view why) { job_->shut(why); };
  while (job_->is_open()) {
    if (!admitted_) {
      auto frame = from_service_.receive(protocol::Channel::Clock::now() + kLookEvery);
      if (!from_service_.is_open()) return over(from_service_.problem());
      if (frame && !take_frame(std::move(*frame))) return;
      continue;
    }
    if (!look_at_service()) return;
    const auto record = admitted_->to_job.next();
    if (admitted_->to_job.broken()) return over("the service's ring is damaged");
    if (!record) {
      admitted_->to_job.wait(std::chrono::nanoseconds(kLookEvery).count());
      continue;
    }
    if (!send_record(*record)) return;
    admitted_->to_job.free_read();
  }
}

bool Relay::look_at_service() {
  while (auto frame = from_service_.receive(protocol::Channel::kAtOnce)) {
    if (!take_frame(std::move(*frame))) return false;
  }
  if (from_service_.is_open()) return true;
  job_->shut(from_service_.problem());
  return false;
}

// Messages about slabs are for the relay, which maps them. All others are passed on to the job.
bool Relay::take_frame(protocol::Frame frame) {
  std::string problem;
  const std::string type = protocol::message_type(frame.text, problem);
  if (type == "slab" || type == "slab_gone") {
    const auto message = protocol::decode_slab(frame.text, problem);
    if (!message) {
      job_->shut(problem);
      return false;
    }
    if (message->bytes == 0) {
      if (slabs_.erase(message->slab) == 0) return true;
      const protocol::JobRecord unmapped{protocol::JobRecordKind::unmapped, 0, message->slab, 0, 0};
      return write_to_service(protocol::bytes_of(unmapped));
    } else if (frame.descriptors.size() == 1 && slabs_.size() < kSlabsMost) {
      protocol::Mapping mapping =
          protocol::Mapping::map_sealed(frame.descriptors.front(), message->bytes, false, problem);
      if (mapping) slabs_[message->slab] = std::move(mapping);
    }
    return true;
  }
  if (!admitted_ && frame.descriptors.size() == 4 && !admit(frame)) return false;
  return job_->write_text(frame.text);
}

bool Relay::admit(protocol::Frame& frame) {
  std::string problem;
  auto answer = protocol::decode_join_answer(frame.text, problem);
  protocol::Rings rings;
  protocol::Pace pace;
  if (answer)
    rings = protocol::map_rings(frame.descriptors[0], frame.descriptors[1], answer->ring_bytes,
                                problem);
  if (rings) pace = protocol::Pace::map_file(frame.descriptors[3], problem);
  if (!rings || !pace) {
    job_->shut(problem);
    return false;
  }
  const std::lock_guard lock(from_job_mutex_);
  admitted_ = std::make_unique<Admitted>(std::move(rings), std::move(frame.descriptors[2]),
                                         std::move(pace), std::move(answer->spec));
  from_job_ = std::make_unique<protocol::RingWriter>(admitted_->rings.from_job());
  return true;
}

bool Relay::send_record(std::span<const std::byte> record) {
  protocol::ServiceMessage message;
  std::string problem;
  if (!protocol::read_service_record(record, message, problem)) {
    job_->shut(problem);
    return false;
  }
  return message.kind == protocol::ServiceRecordKind::batch
             ? send_batch(record, message)
             : job_->write(RemoteKind::record, record);
}

// Sends a batch as the only one in its slot, which is how the job gets it.
bool Relay::send_batch(std::span<const std::byte> record, const protocol::ServiceMessage& message) {
  const protocol::BatchRecord& batch = message.batch;
  while (batch.step >= admitted_->pace.steps()) {
    if (!job_->is_open() || admitted_->rings.revoked().load() != 0) return false;
    if (!look_at_service()) return false;
    std::this_thread::sleep_for(50us);
  }
  auto slab = slabs_.find(batch.slab);
  if (slab == slabs_.end()) {
    if (!look_at_service()) return false;
    slab = slabs_.find(batch.slab);
  }
  const Bytes has = slab == slabs_.end() ? 0 : slab->second.memory().size();
  const batch::BlockLayout from(admitted_->spec, batch.slot_samples);
  if (batch.offset > has || from.bytes > has - batch.offset) {
    job_->shut(fmt::format("a batch is not within slab {}", batch.slab));
    return false;
  }
  const batch::BlockLayout to(admitted_->spec, batch.samples);
  // From where it lies: a copy for each rank would be memory that the service does not count.
  const batch::BatchParts payload(from, slab->second.memory().data() + batch.offset, batch.from,
                                  batch.from + batch.samples, to);
  return job_->write(RemoteKind::record, record) &&
         job_->write_parts(RemoteKind::payload, payload.parts());
}

}  // namespace batchflow::remote
