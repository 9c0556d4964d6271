// One rank's stream of batches: what stands behind bf_loader.
//
// It lives through any number of sessions. What a service that has died had delivered to all ranks
// of the job is still given, out of memory that nobody uses again; then the loader joins anew, with
// where the job is after that, which all its ranks say alike. What was delivered to some of them
// is forgotten, and comes again. So each batch is given exactly once, whenever the service dies.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/client/batchflow.h"
#include "runtime/client/kept_scores.h"
#include "runtime/client/session.h"
#include "runtime/client/track.h"

namespace batchflow {

class Loader {
 public:
  // Each function that gives a status has said why by fail() when it is not BF_OK or BF_END.
  static bf_status open(const bf_loader_options& options, std::unique_ptr<Loader>& out);
  // Leaves. Held batches stay.
  ~Loader();

  bf_status next(bf_batch& batch);
  bf_status next_within(bf_batch& batch, double seconds);
  bool is_connected() const { return session_ != nullptr; }
  void interrupt();  // safe in a signal handler
  bf_status state(const char** text);
  bf_status report_scores(const std::uint64_t* keys, const float* scores, std::size_t count);
  bf_status scores(const std::uint64_t** keys, const float** scores, std::size_t& count);
  bf_status name(bool of_class, std::uint64_t key, const char** text);
  bf_status samples_sum(std::uint64_t first, std::uint64_t count, bf_samples_sum& sum);
  void info(bf_loader_info& out) const;
  void times(bf_loader_times& out) const;
  // Opened by a parent of this process.
  bool is_of_parent() const { return generation_ != process_generation(); }

 private:
  using Clock = Session::Clock;

  Loader() = default;
  bf_status next(bf_batch& batch, Clock::duration most, bool comes_back);
  bf_status next_before(Clock::time_point begin, Clock::duration most, bool comes_back,
                        bf_batch& batch);
  // BF_TIMEOUT: there is nothing yet, or the session was lost. `only_end`: a batch counts as lost.
  bf_status take_record(bf_batch& batch, bool only_end);
  bool read_record();
  void wait_for_record(Clock::time_point until);
  bf_status give(bf_batch& batch);
  std::unique_ptr<HeldBatch> in_place(const BlockLayout& layout, std::shared_ptr<const Slab> slab,
                                      bf_batch& batch) const;
  std::unique_ptr<HeldBatch> copied(const BlockLayout& from, const std::byte* slot,
                                    const BlockLayout& to, bf_batch& batch) const;
  bf_status given(bf_batch& batch, std::unique_ptr<HeldBatch> held);
  const BlockLayout& layout_of(std::uint32_t samples);
  std::string place_problem(const Slab* slab) const;
  void begin_call(Clock::time_point now);

  void lost(std::string_view because);
  bf_status interrupted_now();
  bf_status end(bf_status status, std::string because);
  bf_status end_by_refusal();
  bf_status reconnect(Clock::time_point deadline);
  std::string difference_of(const JoinAnswer& admission) const;
  bool sleep_until(Clock::time_point when);
  void adopt(std::unique_ptr<Session> session);
  bf_status ask(Clock::time_point deadline);
  bf_status tell(std::span<const Score> scores, Clock::time_point deadline);
  void describe_fields();
  void say(bf_said about, const std::string& text) const;
  void ask_whom_it_waits_for(Clock::time_point now);

  std::uint32_t generation_ = process_generation();
  std::vector<std::string> addresses_;
  Descriptor shown_;
  JoinRequest request_;
  bool copies_ = false;
  decltype(bf_loader_options::say) say_ = nullptr;
  void* say_context_ = nullptr;
  Clock::duration timeout_{};
  Clock::duration reconnect_time_{};

  std::unique_ptr<Session> session_;
  JoinAnswer admission_;  // the last
  Track track_;
  std::vector<bf_field> fields_;
  Bytes sample_bytes_ = 0;
  std::map<std::uint32_t, BlockLayout> layouts_;
  DownRecord record_;
  bool has_record_ = false;  // read, and not yet dealt with

  // What ended it for good.
  bf_status ended_ = BF_OK;
  std::string ended_because_;

  std::atomic<std::uint32_t> interrupted_ = 0;
  std::atomic<const std::atomic<std::uint32_t>*> sleeps_on_ = nullptr;

  Clock::time_point looked_at_socket_{};
  Clock::duration ask_after_ = kAskFirst;  // of waiting for a batch
  Clock::time_point lost_at_{};
  Clock::time_point try_again_at_{};
  Clock::duration backoff_{};
  std::string lost_because_;

  // The batch given last, until it is said to be consumed.
  bool is_given_ = false;
  std::uint64_t given_step_ = 0;
  std::uint64_t next_step_ = 0;  // none before it may come
  Clock::time_point waits_since_{};
  Clock::duration waited_{};  // for the batch given last, or the one being waited for
  Clock::time_point returned_at_{};

  std::uint64_t step_ = 0;
  Clock::duration wait_{};
  Clock::duration between_{};
  std::uint64_t samples_ = 0;
  std::uint64_t copied_ = 0;
  std::uint64_t reconnects_ = 0;
  std::string state_;
  KeptScores kept_scores_;
  bool asks_ = false;  // the service has been told that batches are wanted
  std::vector<std::uint64_t> shown_keys_;
  std::vector<float> shown_scores_;
  std::map<std::pair<bool, std::uint64_t>, std::string> names_;
};

}  // namespace batchflow
