// What jobs wait for: how long their ranks had no batch, by the stage in which the next one was.
//
// The blocks of a pipeline pass through stages. Each pipeline has a clock for each stage, and one
// of them runs at a time: that of the last stage that any of its blocks is in, because the block
// that a rank waits for is nearest to its end. A rank that begins to wait notes these clocks. When
// it gets its batch, it has waited for as long as each clock has moved. So a wait costs the same
// however many ranks there are, and the parts add up to the whole.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/types.h"

namespace batchflow::service {

enum class Stage : std::uint8_t {
  storage,      // its blocks are being read
  preparation,  // they are being prepared, or all workers are busy with others'
  delivery,     // its batch is gathered from several blocks, or on its way to the rank
  room,         // none of these: it waits for memory, other ranks, or what a policy holds back
  records,      // of a live job: none of these but memory; records of its source have yet to come
};
inline constexpr std::size_t kStages = 5;
std::string_view stage_name(Stage stage);

class StageTimes {
 public:
  Duration& operator[](Stage stage) { return times_[static_cast<std::size_t>(stage)]; }
  Duration operator[](Stage stage) const { return times_[static_cast<std::size_t>(stage)]; }
  Duration sum() const;
  StageTimes& operator+=(const StageTimes& more);
  friend StageTimes operator-(StageTimes from, const StageTimes& less);

 private:
  std::array<Duration, kStages> times_{};
};

class StallBook {
 public:
  using Clock = std::function<Instant()>;
  explicit StallBook(Clock clock) : clock_(std::move(clock)) {}

  // Facts from the backend: `change` more blocks, or pieces of them, are in the stage. They do not
  // count if the pipeline is none.
  void reading(PipelineId pipeline, int change) {
    moved(pipeline, &BlockProgress::reading, change);
  }
  void preparing(PipelineId pipeline, int change);
  void gathering(PipelineId pipeline, int change) {
    moved(pipeline, &BlockProgress::gathering, change);
  }
  void set_workers(std::uint32_t workers);
  // Something of the pipeline waits for memory, as long as this lives.
  class Shortage {
   public:
    Shortage(StallBook& book, PipelineId pipeline) : book_(&book), pipeline_(pipeline) {
      book.moved(pipeline, &BlockProgress::shortages, 1);
    }
    Shortage(Shortage&& from) noexcept
        : book_(std::exchange(from.book_, nullptr)), pipeline_(from.pipeline_) {}
    Shortage& operator=(Shortage&& from) noexcept {
      std::swap(book_, from.book_);
      std::swap(pipeline_, from.pipeline_);
      return *this;
    }
    ~Shortage() {
      if (book_) book_->moved(pipeline_, &BlockProgress::shortages, -1);
    }

   private:
    StallBook* book_;
    PipelineId pipeline_;
  };

  // A rank's wait, which the rank keeps itself.
  struct Wait {
    PipelineId pipeline = PipelineId::none();
    Instant since{};
    StageTimes began;
    bool for_records = false;
    bool is_on() const { return !pipeline.is_none(); }
  };
  // `for_records`: where nothing is on its way, the rank waits for records of a source.
  Wait begin(PipelineId pipeline, bool for_records = false);
  // The wait so far; nothing if it is not on.
  StageTimes times_of(const Wait& wait) const;
  Duration lasted(const Wait& wait) const;
  Stage stage(PipelineId pipeline, bool for_records = false) const;

  // Waits that have ended, of all jobs since the start.
  void add(const StageTimes& ended) { ended_ += ended; }
  const StageTimes& ended() const { return ended_; }

  // How long anything was being read; and the time that each block was being read, added up.
  Duration storage_busy() const;
  Duration reads_lasted() const;
  std::uint32_t reads_now() const { return reads_; }
  std::uint32_t preparing_now() const { return preparing_; }

 private:
  struct BlockProgress {  // of a pipeline's blocks
    int reading = 0;
    int preparing = 0;
    int gathering = 0;
    int shortages = 0;
    StageTimes clocks{};
    Instant moved{};
  };
  BlockProgress& progress(PipelineId pipeline);
  void moved(PipelineId pipeline, int BlockProgress::*count, int change);
  void settle(BlockProgress& progress, Instant now) const;
  Stage stage_of(const BlockProgress& progress) const;
  void settle_reads(Instant now);
  void change_busy(std::uint32_t preparing, std::uint32_t workers);

  Clock clock_;
  std::vector<BlockProgress> progress_;  // by pipeline
  std::uint32_t workers_ = 0;
  std::uint32_t preparing_ = 0;
  std::uint32_t reads_ = 0;
  Instant reads_moved_{};
  Duration busy_{0};
  Duration lasted_{0};
  StageTimes ended_;
};

// How long ranks waited for each of their batches, in the buckets of a Prometheus histogram.
struct WaitHistogram {
  // Upper bounds, from a batch that is there to a time-out; there is one more bucket beyond the
  // last.
  static constexpr std::array<Duration, 9> kBounds = {
      std::chrono::milliseconds(1),   std::chrono::milliseconds(5),   std::chrono::milliseconds(20),
      std::chrono::milliseconds(100), std::chrono::milliseconds(500), std::chrono::seconds(2),
      std::chrono::seconds(10),       std::chrono::seconds(60),       std::chrono::seconds(300)};

  std::array<std::uint64_t, kBounds.size() + 1> counts{};  // not cumulative
  Duration sum{0};

  void add(Duration wait) {
    const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), wait);
    ++counts[static_cast<std::size_t>(bucket - kBounds.begin())];
    sum += wait;
  }
};

}  // namespace batchflow::service
