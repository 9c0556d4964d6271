// The batches of one rank: the class behind bf_loader.
//
// A loader lives through any number of sessions. When a service dies, the loader still gives the
// batches that the service had delivered to all ranks of the job, since their memory stays as it
// is. Then it joins again, with the job's position after them, which is the same at all ranks.
// Batches that reached only some ranks are dropped, and come again. So each batch is given
// exactly once, whenever the service dies. Ranks of several nodes may have heard of different
// steps; a rank that is behind is told so, and first gives the batches that it has up to there.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/client/absence.h"
#include "runtime/client/batchflow.h"
#include "runtime/client/ideal_steps.h"
#include "runtime/client/job_mixture.h"
#include "runtime/client/job_reports.h"
#include "runtime/client/session.h"
#include "runtime/client/track.h"

namespace batchflow::client {

class Loader {
 public:
  // Where a function answers another status than BF_OK and BF_END, it has called fail() with the
  // reason.
  static bf_status open(const bf_loader_options& options, std::unique_ptr<Loader>& out);
  // Leaves the service. Held batches stay.
  ~Loader();

  // Opens the loader of a keyed job (Store). The samples that it asks for come in that order, one a
  // batch. A batch without samples says that there is no such sample, and its `step` says which was
  // asked for.
  static bf_status open_keyed(const bf_loader_options& options, std::string_view form,
                              std::unique_ptr<Loader>& out);
  // `keys`: as many as a record has room for, and credits allow.
  bf_status ask(std::span<const SampleId> keys);
  // Called when there is another session, which knows nothing of what was asked for.
  void on_session(std::function<void()> then) { on_session_ = std::move(then); }
  std::uint32_t credits() const { return admission_.credits; }
  // The sample's key; BF_ABSENT: none is called that.
  bf_status find(std::string_view name, std::uint64_t& key);

  bf_status next(bf_batch& batch);
  bf_status next_within(bf_batch& batch, double seconds);
  bool is_connected() const { return session_ != nullptr; }
  void interrupt();  // a signal handler may call it
  bf_status state(const char** text);
  bf_status report_scores(const std::uint64_t* keys, const float* scores, std::size_t count);
  bf_status scores(const std::uint64_t** keys, const float** scores, std::size_t& count);
  bf_status report_exemplars(const std::uint64_t* keys, std::size_t count);
  bf_status report_features(std::span<const std::uint64_t> keys, std::span<const float> values,
                            std::size_t features, const std::uint32_t* classes);
  bf_status exemplars(const std::uint64_t** keys, const std::uint32_t** weights,
                      std::size_t& count);
  bf_status set_weights(std::span<const double> weights, std::uint64_t at);
  bf_status report_losses(std::span<const double> losses);
  bf_status mixture(bf_mixture& out);
  bf_status next_change(std::uint64_t& at, const double*& weights);
  bf_status name(bool of_class, std::uint64_t key, const char** text);
  bf_status samples_sum(std::uint64_t first, std::uint64_t count, bf_samples_sum& sum);
  void info(bf_loader_info& out) const;
  void times(bf_loader_times& out) const;
  // Whether a parent of this process opened it.
  bool is_of_parent() const { return generation_ != process_generation(); }

 private:
  bool has_buffer() const;
  using Clock = Session::Clock;

  Loader() = default;
  static bf_status open(const bf_loader_options& options, protocol::JoinRequest request,
                        std::unique_ptr<Loader>& out);
  bf_status next(bf_batch& batch, Clock::duration most, bool comes_back);
  bf_status next_before(Clock::time_point begin, Clock::duration most, bool comes_back,
                        bf_batch& batch);
  // BF_TIMEOUT: nothing can be given yet, or the session was lost. `only_end`: of what came, only
  // the end counts, no batch.
  bf_status take_record(bf_batch& batch, bool only_end);
  bool read_record();
  bool take_change();
  bool take_buffer();
  void wait_for_record(Clock::time_point until);
  bf_status give(bf_batch& batch);
  bf_status give_absent(bf_batch& batch);
  bf_status given(bf_batch& batch, std::unique_ptr<HeldBatch> held, bool slot_is_kept = false);
  // BF_TIMEOUT: no batch is to be given again.
  bf_status give_again(Clock::time_point now, bf_batch& batch);
  std::unique_ptr<HeldBatch> show(const std::shared_ptr<const Slab>& slab,
                                  const protocol::BatchRecord& record, bf_batch& batch);
  const batch::BlockLayout& layout_of(std::uint32_t samples);
  std::string slab_problem(const Slab* slab) const;
  void begin_call(Clock::time_point now);

  void lost(std::string_view because);
  bf_status interrupted_now();
  bf_status end(bf_status status, std::string because);
  bf_status end_by_refusal();
  bool catch_up(std::uint64_t steps_given);
  bf_status reconnect(Clock::time_point deadline);
  std::string difference_of(const protocol::JoinAnswer& admission) const;
  bool sleep_until(Clock::time_point when);
  void adopt(std::unique_ptr<Session> session);
  bf_status request_first_batches(Clock::time_point deadline);
  Send sends_until(Clock::time_point deadline);
  std::uint64_t steps_per_epoch() const;
  void describe_fields();
  void say(bf_said about, const std::string& text) const;
  void ask_for_missing_ranks(Clock::time_point now);

  std::uint32_t generation_ = process_generation();
  std::vector<std::string> addresses_;
  protocol::Descriptor shown_;
  protocol::JoinRequest request_;
  bool copies_ = false;  // no batch is given in place
  decltype(bf_loader_options::say) say_ = nullptr;
  void* say_context_ = nullptr;
  Clock::duration timeout_{};

  std::unique_ptr<Session> session_;
  // The session that was lost last, and what was read of it and not used. Batches in it may still
  // be wanted.
  std::unique_ptr<Session> left_;
  bool left_has_record_ = false;    // record_ is of left_
  std::uint64_t owed_to_ = 0;       // batches before it are given, although their service is gone
  std::uint64_t caught_up_at_ = 0;  // step_, when that was said
  protocol::JoinAnswer admission_;  // of the last session
  Track track_;
  std::vector<bf_field> fields_;
  Bytes sample_bytes_ = 0;
  std::map<std::uint32_t, batch::BlockLayout> layouts_;
  protocol::ServiceMessage record_;
  bool has_record_ = false;  // record_ was read and is not used yet

  // What ended the loader for good.
  bf_status ended_ = BF_OK;
  std::string ended_because_;

  std::atomic<std::uint32_t> interrupted_ = 0;
  std::atomic<const std::atomic<std::uint32_t>*> sleeps_on_ = nullptr;

  Clock::time_point looked_at_socket_{};
  Clock::duration ask_after_ = kAskFirst;  // of waiting for one batch
  Absence absence_;

  // The batch given last, until the loader reports it as consumed.
  bool is_given_ = false;
  std::uint64_t given_step_ = 0;
  std::uint64_t next_step_ = 0;  // no batch of a step before it may come
  Clock::time_point waits_since_{};
  Clock::duration waited_{};  // for the batch given last, or for the next
  Clock::time_point returned_at_{};

  std::uint64_t step_ = 0;
  Clock::duration wait_{};
  Clock::duration between_{};
  std::uint64_t samples_ = 0;
  std::uint64_t copied_ = 0;
  std::uint64_t reconnects_ = 0;
  std::uint64_t replaced_ = 0;
  std::uint64_t again_ = 0;
  IdealSteps ideal_;
  std::string state_;
  JobReports reports_;
  JobMixture mixture_;
  // Of a buffer that the service fills: what it has, and the parts of the next as they come.
  struct Buffer {
    std::vector<std::uint64_t> keys;
    std::vector<std::uint32_t> weights;
  } buffer_, next_buffer_;
  bool has_requested_ = false;  // batches, from the service of this session
  std::map<std::pair<bool, std::uint64_t>, std::string> names_;
  std::function<void()> on_session_;
};

}  // namespace batchflow::client
