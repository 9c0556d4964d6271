// A service that speaks the protocol over a real socket and real rings, without an engine. It makes
// batches itself, from the state that it is given. A script can let it die before each of its
// messages and records.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/order/position_json.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/protocol/channel.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/pace.h"
#include "runtime/protocol/records.h"
#include "runtime/protocol/ring_files.h"

namespace batchflow::test {

struct Script {
  static constexpr int kNever = 1 << 30;

  std::uint64_t samples = 40;
  std::uint32_t block_samples = 8;
  std::uint32_t lane_blocks = 2;
  std::uint32_t epochs = 2;
  std::uint32_t credits = 3;
  int die_before = kNever;  // it ends instead of sending its n-th message or record
  bool refuses_in_mid_run = false;
  std::uint64_t silent_from = kNever;  // it gives no step from here on; the first is 100
  std::uint64_t repeats_at = kNever;   // it gives the samples of the step before again
  int lie = 0;                         // about step 103; see tell_lie
  std::uint32_t protocol = protocol::kProtocolVersion;
  bool refuses_protocol = false;
  bool knows_order_options = true;  // an older service does not
};

struct Seen {
  std::optional<protocol::JoinRequest> request;
  bool had_folder = false;
  std::vector<protocol::JobRecord> consumed;
  std::vector<std::uint64_t> released;
  std::vector<engine::Score> scores;
  std::vector<SampleId> exemplars;  // the buffer as it was reported last
  bool has_whole_buffer = true;
  std::uint64_t wanted = 0;
  std::string problem;
  bool left = false;
};

inline batch::BatchSpec fake_spec() {
  return {{{"image", batch::ElementType::u8, {3, 2}, false},
           {"label", batch::ElementType::i64, {}, false},
           {"tokens", batch::ElementType::u16, {5, 2}, true}}};
}
inline std::uint64_t rows_of(std::uint64_t key) {
  return key % 5;
}

inline protocol::Descriptor listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  std::filesystem::remove(path);
  protocol::Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::listen(socket.get(), 16);
  return socket;
}

class FakeService {
 public:
  using Clock = protocol::Channel::Clock;
  static constexpr int kLies = 8;

  FakeService(const protocol::Descriptor& listener, const Script& script)
      : listener_(listener), script_(script), spec_(fake_spec()) {}

  // Serves one job until it leaves, or this dies.
  Seen serve() {
    pollfd waiting{listener_.get(), POLLIN, 0};
    if (poll(&waiting, 1, 20'000) <= 0) return seen_;
    channel_ = protocol::Channel(
        protocol::Descriptor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    if (greet() && admit()) run();
    return seen_;
  }

 private:
  static Clock::time_point soon() { return Clock::now() + std::chrono::seconds(10); }
  bool dies() { return said_++ == script_.die_before; }
  bool say(const std::string& text, std::span<const int> descriptors = {}) {
    return !dies() && channel_.send(text, descriptors, soon());
  }

  bool greet() {
    const auto hello = channel_.receive(soon());
    std::string problem;
    if (!hello || !protocol::decode_hello(hello->text, problem)) return false;
    if (script_.refuses_protocol) {
      say(protocol::encode(
          protocol::Refused{"protocol", "the service speaks version 4, and the client version 3"}));
      return false;
    }
    if (!say(protocol::encode(protocol::Welcome{script_.protocol, "test", "fake"}))) return false;
    const auto join = channel_.receive(soon());
    if (!join) return false;
    seen_.request = protocol::decode_join(join->text, seen_.problem);
    seen_.had_folder = join->descriptors.size() == 1;
    return seen_.request.has_value();
  }

  bool admit() {
    const protocol::JoinRequest& request = *seen_.request;
    position_ = order::Position(request.order, 77, script_.samples, 5);
    if (!request.state.empty()) {
      const auto position = order::position_from_json(request.state, seen_.problem);
      if (!position) return false;
      position_ = *position;
    }
    std::string problem;
    files_ = protocol::make_rings(protocol::kRingLeast, problem);
    pace_ = protocol::Pace::make(problem);
    down_ = std::make_unique<protocol::RingWriter>(files_.rings.to_job());
    up_ = std::make_unique<protocol::RingReader>(files_.rings.from_job());
    layout_ = batch::BlockLayout(spec_, 2 * request.batch_samples);
    const Bytes bytes = layout_.bytes * kSlots;
    slab_file_ = protocol::make_memory_file("fake-slab", bytes, problem);
    slab_ = protocol::Mapping::map_file(slab_file_, bytes, true, problem);
    protocol::seal(slab_file_, true, problem);
    for (std::uint32_t i = 0; i < kSlots; ++i) free_.push_back(i);

    protocol::JoinAnswer admission;
    admission.job = request.job.empty() ? "new" : request.job;
    admission.dataset_version = 77;
    admission.dataset_samples = script_.samples;
    admission.seed = 5;
    admission.pipeline_hash = 9;
    admission.credits = request.credits != 0 ? request.credits : script_.credits;
    admission.steps_per_epoch =
        (script_.samples + request.batch_samples - 1) / request.batch_samples;
    admission.first_step = step_ = 100;
    admission.classes = 3;
    admission.spec = spec_;
    admission.ring_bytes = protocol::kRingLeast;
    admission.state = request.state;
    if (script_.knows_order_options) admission.order_options = request.order_options;
    const int descriptors[] = {files_.service_file.get(), files_.job_file.get(),
                               files_.doorbell.get(), pace_.file().get()};
    const int slab[] = {slab_file_.get()};
    return say(protocol::encode(admission), descriptors) &&
           say(protocol::encode(protocol::SlabMessage{1, bytes}), slab);
  }

  // The slices of the next batch, which are added to the position.
  std::vector<order::Slice> next_slices() {
    const std::uint64_t left = script_.samples - position_.consumed();
    std::uint64_t need = std::min<std::uint64_t>(seen_.request->batch_samples, left);
    std::vector<order::Slice> slices;
    const auto take = [&](order::BlockName name, std::uint64_t from, std::uint64_t there) {
      const auto count = std::min(need, there);
      if (count == 0) return;
      slices.push_back({name, static_cast<std::uint32_t>(from),
                        static_cast<std::uint32_t>(from + count), false, false});
      need -= count;
    };
    if (position_.order() != Order::relaxed) {
      take({position_.epoch(), 0, 0, 0}, position_.consumed(), left);
    } else {
      if (position_.consumed() == 0) {
        const std::uint64_t last =
            position_.has_generation() ? position_.lanes().generation + 1 : 0;
        position_.begin_generation(last, script_.block_samples, script_.lane_blocks);
      }
      const order::LaneSizes sizes = position_.lanes().sizes;
      for (std::uint32_t lane = 0; lane < sizes.lanes(); ++lane) {
        for (std::uint32_t block = 0; block < sizes.blocks_of(lane); ++block) {
          const std::uint32_t had = position_.samples_had(lane, block);
          take({position_.lanes().generation, lane, 0, block}, had,
               sizes.samples_of(lane, block) - had);
        }
      }
    }
    if (step_ == script_.repeats_at) return last_slices_;
    const std::string problem = position_.apply(slices);
    last_slices_ = slices;
    if (!problem.empty()) seen_.problem = problem;
    return slices;
  }

  std::uint64_t key_of(const order::Slice& slice, std::uint32_t place) const {
    if (position_.order() != Order::relaxed) return place;
    const order::LaneSizes sizes = position_.lanes().sizes;
    return (sizes.first_block_of(slice.name.lane) + slice.name.block) * sizes.block_samples + place;
  }

  void fill(std::uint32_t slot, std::uint32_t from, std::span<const order::Slice> slices,
            std::uint32_t padded) {
    std::byte* memory = slab_.memory().data() + layout_.bytes * slot;
    const batch::BlockWriter writer(layout_, memory);
    std::uint32_t place = 0;
    std::vector<std::uint64_t> keys(from, 0);
    for (const order::Slice& slice : slices)
      for (std::uint32_t i = slice.from; i < slice.to; ++i) keys.push_back(key_of(slice, i));
    keys.resize(from + padded, keys.back());
    for (const std::uint64_t key : keys) {
      std::memset(writer.row(0, place), static_cast<int>(key), 6);
      std::memcpy(writer.row(1, place), &key, 8);
      std::memset(writer.begin_rows(2, place), static_cast<int>(key), 4 * rows_of(key));
      writer.end_rows(2, place, rows_of(key));
      writer.set_key(place, SampleId(key), SampleId(key), 0);
      ++place;
    }
  }

  // Each makes a record or a slot that no service would.
  void tell_lie(protocol::BatchRecord& batch) {
    std::byte* slot = slab_.memory().data() + batch.offset;
    const std::int64_t far = std::int64_t{1} << 40;
    if (script_.lie == 1) batch.slab = 2;
    if (script_.lie == 2) batch.offset += layout_.bytes * kSlots;
    if (script_.lie == 3) batch.offset = ~std::uint64_t{63};
    if (script_.lie == 4) batch.slot_samples = ~std::uint32_t{0};
    if (script_.lie == 5) batch.from = layout_.samples;
    if (script_.lie == 6) batch.step = 7;
    if (script_.lie == 7) batch.fillers = 3;
    if (script_.lie == 8)
      std::memcpy(slot + layout_.fields[2].offsets + 8 * (batch.from + 1), &far, sizeof far);
  }

  bool send_batch() {
    const std::uint32_t slot = free_.front();
    free_.pop_front();
    const auto slices = next_slices();
    protocol::BatchRecord batch;
    batch.step = step_++;
    batch.epoch = position_.epoch();
    batch.last_of_epoch = position_.consumed() == script_.samples;
    batch.slab = 1;
    batch.offset = layout_.bytes * slot;
    batch.slot_samples = layout_.samples;
    batch.from = batch.step % 2 == 0 ? 0 : seen_.request->batch_samples;
    for (const order::Slice& slice : slices) batch.samples += slice.to - slice.from;
    std::vector<order::Slice> all = slices;
    // The tail is filled up by its first sample.
    batch.fillers = seen_.request->batch_samples - batch.samples;
    for (std::uint32_t i = 0; i < batch.fillers; ++i)
      all.push_back({slices.front().name, slices.front().from, slices.front().from + 1, true});
    batch.samples += batch.fillers;
    batch.block_samples = script_.block_samples;
    batch.lane_blocks = script_.lane_blocks;
    fill(slot, batch.from, slices, batch.samples);
    slots_.push_back({batch.step, slot});
    if (batch.step == 103) tell_lie(batch);
    if (batch.last_of_epoch != 0) position_.finish_epoch();
    batch.own = static_cast<std::uint32_t>(all.size());
    batch.whole_step = 1;
    protocol::write_batch(batch, all, scratch_);
    const std::uint64_t paced = pace_.steps();
    if (!record(scratch_)) return false;
    pace_.raise(std::max(paced, batch.step + 1));
    return true;
  }

  bool record(std::span<const std::byte> bytes) {
    if (dies()) return false;
    if (!down_->write(bytes)) seen_.problem = "no room in the ring";
    if (down_->publish()) down_->wake();
    return true;
  }

  bool hear() {
    std::string problem;
    while (const auto bytes = up_->next()) {
      protocol::JobMessage message;
      if (!protocol::read_job_record(*bytes, message, problem)) seen_.problem = problem;
      const protocol::JobRecord& up = message.record;
      if (up.kind == protocol::JobRecordKind::wanted)
        credits_ += up.credits, seen_.wanted += up.credits;
      if (up.kind == protocol::JobRecordKind::consumed) seen_.consumed.push_back(up);
      if (up.kind == protocol::JobRecordKind::scores)
        seen_.scores.insert(seen_.scores.end(), message.scores.begin(), message.scores.end());
      if (up.kind == protocol::JobRecordKind::exemplars) {
        if (message.part.first == 0) seen_.exemplars.clear();
        if (message.part.first != seen_.exemplars.size()) seen_.problem = "a gap in a buffer";
        seen_.exemplars.insert(seen_.exemplars.end(), message.exemplars.begin(),
                               message.exemplars.end());
        seen_.has_whole_buffer = message.part.more == 0;
      }
      if (up.kind != protocol::JobRecordKind::released) continue;
      seen_.released.push_back(up.step);
      const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                     [&](const auto& s) { return s.first == up.step; });
      if (slot == slots_.end()) {
        seen_.problem = "released what was not given";
        continue;
      }
      // The memory of a released batch changes at once.
      std::memset(slab_.memory().data() + layout_.bytes * slot->second, 0xee, layout_.bytes);
      free_.push_back(slot->second);
      slots_.erase(slot);
    }
    up_->free_read();
    if (up_->broken()) seen_.problem = "the up ring is broken";
    while (auto frame = channel_.receive(protocol::Channel::kAtOnce)) {
      if (protocol::message_type(frame->text, problem) == "leave") seen_.left = true;
      if (const auto name = protocol::decode_name(frame->text, problem)) {
        const std::string text =
            (name->of_class ? "class " : "sample ") + std::to_string(name->key);
        channel_.send(protocol::encode(protocol::NameMessage{name->of_class, name->key, text}), {},
                      soon());
      }
    }
    return channel_.is_open() && seen_.problem.empty();
  }

  void run() {
    bool finished = false;
    while (hear()) {
      while (!finished && credits_ > 0 && !free_.empty() && step_ < script_.silent_from) {
        if (position_.epoch() == script_.epochs) {
          if (!record(protocol::bytes_of(protocol::FinishedRecord{}))) return;
          finished = true;
          break;
        }
        if (script_.refuses_in_mid_run && step_ == 103) {
          channel_.send(protocol::encode(protocol::Refused{"storage_failed", "the disk is gone"}),
                        {}, soon());
          record(
              protocol::bytes_of(protocol::FinishedRecord{protocol::ServiceRecordKind::refused}));
          finished = true;
          break;
        }
        if (!send_batch()) return;
        --credits_;
        if (position_.consumed() == 0 &&
            !record(protocol::bytes_of(protocol::EpochEndedRecord{
                protocol::ServiceRecordKind::epoch_ended, position_.epoch() - 1, script_.samples})))
          return;
      }
      if (!up_->fall_asleep()) continue;
      pollfd waiting[] = {{channel_.socket().get(), POLLIN, 0}, {files_.doorbell.get(), POLLIN, 0}};
      if (poll(waiting, 2, 20'000) <= 0) seen_.problem = "nothing came for 20 s";
      protocol::silence_doorbell(files_.doorbell);
      up_->awake();
    }
    // A job may have written its last records between the look into the ring and its end.
    if (seen_.problem.empty()) hear();
  }

  static constexpr std::uint32_t kSlots = 16;

  std::vector<order::Slice> last_slices_;
  const protocol::Descriptor& listener_;
  Script script_;
  batch::BatchSpec spec_;
  protocol::Channel channel_;
  Seen seen_;
  int said_ = 0;
  order::Position position_;
  protocol::RingFiles files_;
  protocol::Pace pace_;
  std::unique_ptr<protocol::RingWriter> down_;
  std::unique_ptr<protocol::RingReader> up_;
  protocol::Descriptor slab_file_;
  protocol::Mapping slab_;
  batch::BlockLayout layout_;
  std::deque<std::uint32_t> free_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> slots_;  // step, slot
  std::vector<std::byte> scratch_;
  std::uint64_t step_ = 0;
  std::uint64_t credits_ = 0;
};

}  // namespace batchflow::test
