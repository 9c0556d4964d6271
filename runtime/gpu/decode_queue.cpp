#include "runtime/gpu/decode_queue.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/base/check.h"

namespace batchflow::gpu {

using Clock = std::chrono::steady_clock;

const char* name_of(JpegStatus status) {
  static constexpr const char* kNames[] = {"decoded", "corrupt", "unsupported", "no room",
                                           "failed"};
  return kNames[static_cast<std::size_t>(status)];
}

struct DecodeQueue::Batch {
  std::span<JpegResult> results;
  std::function<void()> done;
  std::atomic<std::size_t> left;

  // The results may be gone as soon as the last picture has ended.
  void end(std::size_t pictures) {
    if (pictures > 0 && left.fetch_sub(pictures, std::memory_order_acq_rel) == pictures && done)
      done();
  }
};

void DecodeQueue::add(std::span<const JpegPicture> pictures, std::span<JpegResult> results,
                      std::function<void()> done) {
  BF_CHECK(pictures.size() == results.size());
  if (pictures.empty()) return done();
  auto batch = std::make_shared<Batch>(results, std::move(done), pictures.size());
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    JpegResult& result = results[i];
    result = {JpegStatus::corrupt, JpegWay::cpu, {}, 0, "it is no JPEG with a size"};
    const std::optional<JpegHeader> header = read_jpeg_header(pictures[i].bytes);
    if (!header) continue;
    result.extent = header->extent;
    result.stride = row_bytes(header->extent);
    result.status = JpegStatus::no_room;
    result.why = "its slot is too small";
    if (pictures[i].capacity < slot_bytes(header->extent)) continue;
    const auto pixels = static_cast<std::uint64_t>(header->extent.width) *
                        static_cast<std::uint64_t>(header->extent.height);
    jobs.push_back({batch,
                    i,
                    pictures[i],
                    header->extent,
                    header->ways,
                    pixels + pictures[i].bytes.size(),
                    {},
                    Clock::now()});
  }
  std::size_t ended = pictures.size() - jobs.size();
  {
    std::lock_guard lock(mutex_);
    // The largest first: so that what is left at the end is small.
    std::stable_sort(jobs.begin(), jobs.end(),
                     [](const Job& a, const Job& b) { return a.units > b.units; });
    for (Job& job : jobs) {
      const bool possible = has_way(job.allowed);
      if (closed_ || !possible) {
        results[job.index].status = closed_ ? JpegStatus::failed : JpegStatus::unsupported;
        results[job.index].why = closed_ ? "decoding has ended" : "only a CPU decodes its kind";
        ++ended;
        continue;
      }
      job.choice = shares_.choose(job.units, job.allowed);
      ++left_;
      queue(job.choice.way).push_back(std::move(job));
    }
  }
  changed_.notify_all();
  batch->end(ended);
}

bool DecodeQueue::has_way(JpegWays ways) const {
  for (std::size_t i = 0; i < kJpegWays; ++i)
    if (const auto way = static_cast<JpegWay>(i); has(ways, way) && shares_.is_there(way))
      return true;
  return false;
}

std::vector<DecodeQueue::Job> DecodeQueue::take(JpegWay way, const Wanted& wanted) {
  std::vector<Job> jobs;
  std::unique_lock lock(mutex_);
  std::deque<Job>& own = queue(way);
  const auto ready = [&] {
    if (!own.empty()) return true;
    return wanted.takes_over && take_over(way, jobs);
  };
  const auto stop = [&] { return ready() || (closed_ && left_ == 0); };
  if (wanted.patience.count() > 0)
    changed_.wait_for(lock, wanted.patience, stop);
  else
    changed_.wait(lock, stop);
  if (own.size() < wanted.least && !own.empty()) {
    constexpr std::chrono::microseconds kForMore{500};
    changed_.wait_for(lock, kForMore, [&] { return own.size() >= wanted.least || closed_; });
  }
  while (!own.empty() && jobs.size() < wanted.most) {
    jobs.push_back(std::move(own.front()));
    own.pop_front();
  }
  return jobs;
}

// Of the way that has the longest to go, if the picture is done sooner here.
bool DecodeQueue::take_over(JpegWay way, std::vector<Job>& jobs) {
  if (!shares_.may_take_over()) return false;
  std::optional<std::size_t> longest;
  double most = 0;
  for (std::size_t i = 0; i < kJpegWays; ++i) {
    const auto other = static_cast<JpegWay>(i);
    if (other == way || queues_[i].empty()) continue;
    const Job& last = queues_[i].back();
    const double waits = shares_.waiting_ns(other);
    if (!has(last.allowed, way) || waits < shares_.cost_ns(way, last.units) || waits <= most)
      continue;
    longest = i;
    most = waits;
  }
  if (!longest) return false;
  Job job = std::move(queues_[*longest].back());
  queues_[*longest].pop_back();
  job.choice = shares_.move(job.choice, way, job.units);
  jobs.push_back(std::move(job));
  return true;
}

void DecodeQueue::decoded(Job&& job) {
  const auto latency = Clock::now() - job.since;
  {
    std::lock_guard lock(mutex_);
    shares_.finished(job.choice, job.units,
                     std::chrono::duration_cast<std::chrono::nanoseconds>(latency).count());
    ++decoded_[static_cast<std::size_t>(job.choice.way)];
  }
  const JpegWay way = job.choice.way;
  const kernels::Extent2 extent = job.extent;
  end(std::move(job), {JpegStatus::decoded, way, extent, row_bytes(extent), ""});
}

void DecodeQueue::not_decoded(Job&& job, JpegStatus status, const char* why) {
  {
    std::lock_guard lock(mutex_);
    job.allowed &= static_cast<JpegWays>(~only(job.choice.way));
    // What the CPU says is final.
    if (job.choice.way == JpegWay::cpu) job.allowed = 0;
    job.allowed &= static_cast<JpegWays>(only(JpegWay::host_huffman) | only(JpegWay::cpu));
    for (const JpegWay next : {JpegWay::host_huffman, JpegWay::cpu}) {
      if (!has(job.allowed, next) || !shares_.is_there(next)) continue;
      job.choice = shares_.move(job.choice, next, job.units);
      queue(next).push_front(std::move(job));
      changed_.notify_all();
      return;
    }
    shares_.failed(job.choice, job.units);
  }
  const JpegWay way = job.choice.way;
  const kernels::Extent2 extent = job.extent;
  end(std::move(job), {status, way, extent, row_bytes(extent), why});
}

void DecodeQueue::end(Job&& job, const JpegResult& result) {
  const std::shared_ptr<Batch> batch = std::move(job.batch);
  batch->results[job.index] = result;
  batch->end(1);
  bool none = false;
  {
    std::lock_guard lock(mutex_);
    none = --left_ == 0 && closed_;
  }
  if (none) changed_.notify_all();
}

void DecodeQueue::served(JpegWay way, std::size_t pictures, std::uint64_t units,
                         std::chrono::nanoseconds busy) {
  std::lock_guard lock(mutex_);
  shares_.served(way, pictures, units, busy.count());
}

void DecodeQueue::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

std::uint64_t DecodeQueue::decoded_by(JpegWay way) const {
  std::lock_guard lock(mutex_);
  return decoded_[static_cast<std::size_t>(way)];
}
double DecodeQueue::late_ns(JpegWay way) const {
  std::lock_guard lock(mutex_);
  return shares_.late_ns(way);
}

}  // namespace batchflow::gpu
