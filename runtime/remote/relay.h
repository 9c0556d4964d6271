// The service's end of a remote rank's connection. To the service it looks like a job of this
// machine, with rings and mapped batches. It passes all messages, records and batches on over TCP.
//
// So the service needs no code for remote jobs; it only learns their addresses, to show them. A
// relay has two threads: one waits for the job, one for the service.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/batch/batch_spec.h"
#include "runtime/protocol/channel.h"
#include "runtime/protocol/pace.h"
#include "runtime/protocol/records.h"
#include "runtime/protocol/ring_files.h"
#include "runtime/remote/tcp_channel.h"

namespace batchflow::remote {

class Relay {
 public:
  // `local` is a connection to the service, `from` the machine of the job. `large_frames`, the
  // bytes of large messages of all relays, outlives it.
  Relay(std::unique_ptr<TcpChannel> job, protocol::Channel local, std::string from,
        std::atomic<std::size_t>& large_frames);

  // Returns when either side ends, or another thread calls stop().
  void run();
  void stop(std::string_view why) { job_->shut(why); }

 private:
  struct Admitted {
    protocol::Rings rings;
    protocol::Descriptor doorbell;
    protocol::Pace pace;
    batch::BatchSpec spec;
    protocol::RingReader to_job;
    Admitted(protocol::Rings mapped, protocol::Descriptor bell, protocol::Pace steps,
             batch::BatchSpec fields)
        : rings(std::move(mapped)),
          doorbell(std::move(bell)),
          pace(std::move(steps)),
          spec(std::move(fields)),
          to_job(rings.to_job()) {}
  };

  // Carries one way until a side ends. Running out of memory ends the rank.
  void carry(void (Relay::*way)(), std::string_view over);
  void listen_to_job();
  bool take_text(const std::string& text);
  bool refuse(std::string_view why, std::string message);
  bool take_record(std::span<const std::byte> record);
  bool write_to_service(std::span<const std::byte> record);
  void listen_to_service();
  bool take_frame(protocol::Frame frame);
  bool admit(protocol::Frame& frame);
  bool look_at_service();
  bool send_record(std::span<const std::byte> record);
  bool send_batch(std::span<const std::byte> record, const protocol::ServiceMessage& message);

  std::unique_ptr<TcpChannel> job_;
  std::atomic<std::size_t>& large_frames_;
  const std::string from_;
  // Both are of one socket.
  protocol::Channel to_service_;    // for the thread that listens to the job
  protocol::Channel from_service_;  // for the thread that listens to the service
  std::unique_ptr<Admitted> admitted_;
  std::mutex from_job_mutex_;
  std::unique_ptr<protocol::RingWriter> from_job_;  // with from_job_mutex_ held; null: not admitted
  std::map<std::uint64_t, protocol::Mapping> slabs_;
};

}  // namespace batchflow::remote
