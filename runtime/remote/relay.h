// The service's side of a remote rank: to the service it is a job of this machine, with rings and
// mapped batches, and all that passes there it passes on over a stream.
//
// So the service knows of remote jobs only from where they come, to tell it. Two threads a rank:
// one waits for the job, one for the service.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/batch/batch_spec.h"
#include "runtime/protocol/channel.h"
#include "runtime/protocol/pace.h"
#include "runtime/protocol/records.h"
#include "runtime/protocol/ring_files.h"
#include "runtime/remote/stream.h"

namespace batchflow {

class Relay {
 public:
  // `local` is a connection to the service, `from` the machine of the job; `large_frames`, bytes of
  // all relays' large messages, outlives it.
  Relay(std::unique_ptr<Stream> stream, Channel local, std::string from,
        std::atomic<std::size_t>& large_frames);

  // Until either side ends, or stop() from another thread.
  void run();
  void stop(std::string_view why) { stream_->shut(why); }

 private:
  struct Admitted {
    Rings rings;
    Descriptor doorbell;
    Pace pace;
    BatchSpec spec;
    RingReader down;
    Admitted(Rings mapped, Descriptor bell, Pace steps, BatchSpec of)
        : rings(std::move(mapped)),
          doorbell(std::move(bell)),
          pace(std::move(steps)),
          spec(std::move(of)),
          down(rings.down()) {}
  };

  // Both ways, each on a thread; what runs out of memory ends the rank.
  void carry(void (Relay::*way)(), std::string_view over);
  void listen_to_job();
  bool take_text(const std::string& text);
  bool refuse(std::string_view why, std::string message);
  bool take_record(std::span<const std::byte> record);
  bool say(std::span<const std::byte> record);
  void listen_to_service();
  bool take_frame(Frame frame);
  bool admit(Frame& frame);
  bool look_at_service();
  bool send_record(std::span<const std::byte> record);
  bool send_batch(std::span<const std::byte> record, const DownRecord& down);

  std::unique_ptr<Stream> stream_;
  std::atomic<std::size_t>& large_frames_;
  const std::string from_;
  Channel to_service_;    // of the thread that listens to the job
  Channel from_service_;  // of the one that listens to the service, by the same socket
  std::unique_ptr<Admitted> admitted_;
  std::mutex up_mutex_;
  std::unique_ptr<RingWriter> up_;  // by up_mutex_; null: not admitted
  std::map<std::uint64_t, Mapping> slabs_;
};

}  // namespace batchflow
