#include "runtime/ctl/reasons.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "fmt/format.h"
#include "runtime/ctl/answer.h"

namespace batchflow::ctl {
namespace {

using nlohmann::json;

// A job that stalls less counts as one that does not wait.
constexpr double kStallLeast = 0.05;

// What happened between two answers.
class Window {
 public:
  Window(const json& before, const json& now)
      : before_(before),
        now_(now),
        seconds_(std::max(1e-3, number(now, "up_s") - number(before, "up_s"))) {}

  double seconds() const { return seconds_; }
  const json& now() const { return now_; }
  double now(const char* key) const { return number(now_, key); }
  double change(const char* key) const { return number(now_, key) - number(before_, key); }
  double rate(const char* key) const { return change(key) / seconds_; }
  double busy(const char* key) const { return std::min(1.0, rate(key)); }

 private:
  const json& before_;
  const json& now_;
  double seconds_;
};

struct JobWindow {
  const json& before;
  const json& now;
  double ranks;
  double samples_per_s;
  double stalled;
  double demand;  // samples/s, if it never waited; 0: it only waits, so this is not known
};

std::string percent(double part) {
  return fmt::format("{:.0f} %", 100 * part);
}
std::string rate_text(double bytes_per_s) {
  return bytes_text(bytes_per_s) + "/s";
}

void add_demand(const JobWindow& job, Diagnosis& out) {
  if (job.samples_per_s <= 0) {
    out.facts.push_back("it got no batch in this time");
  } else if (job.demand <= 0) {
    out.facts.push_back(
        fmt::format("it takes {:.0f} samples/s, and computes next to nothing: it would take "
                    "whatever it is given",
                    job.samples_per_s));
  } else {
    out.facts.push_back(
        fmt::format("it takes {:.0f} samples/s, and would take {:.0f} if it never waited",
                    job.samples_per_s, job.demand));
  }
}

void add_cache_hits(const Window& all, Diagnosis& out) {
  const double prepared = all.change("prepared_samples");
  if (prepared <= 0) return;
  out.facts.push_back(
      fmt::format("of the samples prepared, {} came decoded and {} as stored out "
                  "of the cache",
                  percent(all.change("decoded_hits") / prepared),
                  percent(all.change("encoded_hits") / prepared)));
}

const json* dataset_of(const Window& all, const JobWindow& job) {
  for (const json& one : list(all.now(), "datasets")) {
    if (text(one, "name") == text(job.now, "dataset")) return &one;
  }
  return nullptr;
}

void storage(const Window& all, const JobWindow& job, Diagnosis& out) {
  out.facts.push_back(fmt::format(
      "storage ({}) gives {:.0f} samples/s, {}; it was busy {} of the time, with {:.1f} blocks at "
      "once",
      text(all.now(), "storage"), all.rate("read_samples"), rate_text(all.rate("read_bytes")),
      percent(all.busy("storage_busy_s")), all.rate("reads_s")));
  add_demand(job, out);
  add_cache_hits(all, out);
  if (const json* dataset = dataset_of(all, job)) {
    const double bytes = number(*dataset, "bytes");
    const double samples = std::max(1.0, number(*dataset, "samples"));
    const double cache = all.now("cache_bytes") + all.now("spill_limit_bytes");
    if (bytes > cache) {
      out.advice.push_back(fmt::format(
          "give it more memory: the dataset has {}, and the cache {} in all (--memory, or --spill "
          "for a second tier on a local drive)",
          bytes_text(bytes), bytes_text(cache)));
    } else {
      out.advice.push_back(
          "let it run: the dataset fits the cache, and its next epoch is read from there");
    }
    if (bytes / samples < 256 * 1024)
      out.advice.push_back(fmt::format(
          "samples are small, {} each: large files are read faster than many small ones "
          "(batchflowctl pack)",
          bytes_text(bytes / samples)));
  }
  out.advice.push_back(
      "more reads at once (storage.depth, storage.threads), if the drive can do more: compare with "
      "what fio says of it");
}

// If workers are busy for a smaller part of their time, more workers would not help.
constexpr double kBusyLeast = 0.6;

void preparation(const Window& all, const JobWindow& job, Diagnosis& out) {
  const double workers = std::max(1.0, all.now("workers"));
  const double prepared = all.change("prepared_samples");
  const double busy = std::min(1.0, all.rate("preparing_s") / workers);
  out.facts.push_back(
      fmt::format("{:.0f} workers of at most {:.0f} were busy {} of the time, and "
                  "prepared {:.0f} samples/s",
                  workers, all.now("workers_most"), percent(busy), prepared / all.seconds()));
  const double each_s = prepared > 0 ? all.change("preparing_s") / prepared : 0;
  if (each_s > 0) out.facts.push_back(fmt::format("a sample takes {:.2f} ms", 1000 * each_s));
  add_demand(job, out);
  add_cache_hits(all, out);
  const double cores = all.now("cores");
  // Blocks wait to be prepared, and there is no room for them.
  if (busy < kBusyLeast) {
    out.facts.push_back(
        fmt::format("they had no work for {} of the time: {} of {} are taken by "
                    "blocks and batches, {} by samples",
                    percent(1 - busy), bytes_text(all.now("block_bytes")),
                    bytes_text(all.now("cache_bytes")), bytes_text(all.now("item_bytes"))));
    out.advice.push_back(
        "more memory for blocks that are made ahead (--memory), or jobs that hold fewer batches");
    return;
  }
  // A job that computes next to nothing would use all cores.
  const double needed = job.demand > 0 ? std::ceil(job.demand * each_s) : cores;
  if (needed > workers && workers < cores)
    out.advice.push_back(fmt::format(
        "more workers: this job alone wants {:.0f}{}, and the machine has {:.0f} cores (--workers "
        "{:.0f})",
        needed, job.demand > 0 ? "" : " and more", cores, std::min(needed, cores)));
  if (needed > cores || workers >= cores)
    out.advice.push_back(fmt::format(
        "fewer or cheaper steps in pipeline '{}', or a machine with more than {:.0f} cores: all of "
        "them prepare",
        text(job.now, "pipeline"), cores));
  out.advice.push_back(
      "let jobs share: those with one dataset, pipeline and seed group have each sample prepared "
      "once for all");
}

void delivery(const Window& all, const JobWindow& job, Diagnosis& out) {
  const double samples = std::max(1.0, all.change("samples"));
  const double copied = number(job.now, "copied_batches") - number(job.before, "copied_batches");
  out.facts.push_back(fmt::format(
      "{:.1f} batches/s are delivered; {} of their samples were copied, and {:.0f} batches of this "
      "job were gathered",
      all.rate("batches"), percent(all.change("copied_samples") / samples), copied));
  add_demand(job, out);
  if (copied > 0)
    out.advice.push_back(fmt::format(
        "batches that lie in one block are not copied: a batch of a power of two instead of "
        "{:.0f}, and release batches before more are asked for",
        number(job.now, "batch_samples")));
  out.advice.push_back(
      "a core for the job's own process: it is woken when its batch is there, and runs when the "
      "machine lets it");
}

void room(const Window& all, const JobWindow& job, Diagnosis& out) {
  out.facts.push_back(fmt::format(
      "nothing of it was being read or prepared; {} of {} are taken by blocks, {} by samples",
      bytes_text(all.now("block_bytes")), bytes_text(all.now("cache_bytes")),
      bytes_text(all.now("item_bytes"))));
  if (const double waiting = all.now("waits_for_memory"); waiting > 0) {
    out.facts.push_back(fmt::format("{:.0f} blocks or batches wait for memory: {} of {} are in use",
                                    waiting, bytes_text(all.now("used_bytes")),
                                    bytes_text(all.now("cache_bytes"))));
    if (all.now("used_bytes") < 0.9 * all.now("cache_bytes"))
      out.advice.push_back(
          "the machine, or the service's control group, has no pages for what the service may use: "
          "give that more memory, or the service less (--memory)");
  }
  add_demand(job, out);
  for (const json& other : list(all.now(), "jobs")) {
    if (number(other, "held_batches") >= 2)
      out.facts.push_back(fmt::format("job '{}' holds {:.0f} batches", text(other, "name"),
                                      number(other, "held_batches")));
  }
  if (number(job.now, "waiting_ranks") < number(job.now, "ranks_here"))
    out.advice.push_back(
        "look at the ranks that do not wait: all ranks of a job go at the pace of its slowest");
  out.advice.push_back("more memory for blocks (--memory), or jobs that hold fewer batches");
  out.advice.push_back("batchflowctl explain and describe say what the engine waits for");
}

void records(const Window& all, const JobWindow& job, Diagnosis& out) {
  const json* const dataset = dataset_of(all, job);
  out.facts.push_back(fmt::format(
      "it has had all records of '{}' that there were; {:.0f} producers send to it",
      text(job.now, "dataset"), dataset ? number(object(*dataset, "feed"), "producers") : 0));
  add_demand(job, out);
  out.advice.push_back("producers that send more, or a smaller batch");
  out.advice.push_back(
      "a shorter wait for records (in Python wait= of Live, with fill=\"rehearse\" or "
      "fill=\"short\")");
}

void none(const JobWindow& job, Diagnosis& out) {
  const double steps = number(job.now, "steps") - number(job.before, "steps");
  const double computed = number(job.now, "compute_s") - number(job.before, "compute_s");
  out.facts.push_back(
      fmt::format("it computes; {:.0f} batches wait for it", number(job.now, "held_batches")));
  if (steps > 0)
    out.facts.push_back(fmt::format("{:.0f} samples/s, a step of {:.0f} samples takes {:.1f} ms",
                                    job.samples_per_s, number(job.now, "batch_samples"),
                                    1000 * computed / std::max(1.0, steps * job.ranks)));
  out.advice.push_back("nothing here: what would make it faster is the job's own step");
}

void start(const JobWindow& job, Diagnosis& out) {
  const double here = number(job.now, "ranks_here");
  const double waits = number(job.now, "waits_to_begin_s");
  if (here < job.ranks) {
    out.facts.push_back(
        fmt::format("{:.0f} of its {:.0f} ranks have come in {:.0f} s", here, job.ranks, waits));
    out.advice.push_back("start the other ranks, with the same job name and world size");
  } else {
    out.facts.push_back(fmt::format("the engine has not admitted it for {:.0f} s", waits));
    out.advice.push_back("batchflowctl describe says what it waits for");
  }
}

Diagnosis diagnose_one(const Window& all, const JobWindow& job) {
  Diagnosis out;
  out.job = text(job.now, "name");
  out.stalled = job.stalled;
  if (!flag(job.now, "running")) {
    out.link = "start";
    start(job, out);
    return out;
  }
  if (job.stalled < kStallLeast) {
    out.link = "none";
    none(job, out);
    return out;
  }
  using Explain = void (*)(const Window&, const JobWindow&, Diagnosis&);
  constexpr std::array<Explain, kStages.size()> kExplain = {storage, preparation, delivery, room,
                                                            records};
  const auto stall = [&](std::size_t stage) {
    return (number(object(job.now, "stall_s"), kStages[stage]) -
            number(object(job.before, "stall_s"), kStages[stage])) /
           (all.seconds() * job.ranks);
  };
  std::size_t slowest = 0;
  std::string parts;
  for (std::size_t stage = 0; stage < kStages.size(); ++stage) {
    if (stall(stage) > stall(slowest)) slowest = stage;
    if (kStages[stage] == kRecordsStage && stall(stage) <= 0) continue;
    parts += fmt::format("{}{} {}", stage == 0 ? "" : ", ", percent(stall(stage)), kStages[stage]);
  }
  out.link = kStages[slowest];
  out.facts.push_back(fmt::format("it waits {} of its time: {}", percent(job.stalled), parts));
  kExplain[slowest](all, job, out);
  return out;
}

}  // namespace

std::vector<Diagnosis> diagnose(const json& before, const json& now, std::string_view wanted) {
  const Window all(before, now);
  std::vector<Diagnosis> found;
  for (const json& job : list(now, "jobs")) {
    if (!wanted.empty() && text(job, "name") != wanted) continue;
    for (const json& earlier : list(before, "jobs")) {
      if (number(earlier, "id") != number(job, "id") || text(earlier, "name") != text(job, "name"))
        continue;
      JobWindow window{earlier, job, std::max(1.0, number(job, "ranks")), 0, 0, 0};
      double stall = 0;
      for (const char* stage : kStages)
        stall += number(object(job, "stall_s"), stage) - number(object(earlier, "stall_s"), stage);
      window.stalled = std::clamp(stall / (all.seconds() * window.ranks), 0.0, 1.0);
      window.samples_per_s = (number(job, "samples") - number(earlier, "samples")) / all.seconds();
      if (window.stalled < 0.999) window.demand = window.samples_per_s / (1 - window.stalled);
      found.push_back(diagnose_one(all, window));
    }
  }
  return found;
}

std::vector<std::string> node_remarks(const json& before, const json& now) {
  const Window all(before, now);
  std::vector<std::string> remarks;
  const auto add = [&](bool wrong, std::string remark) {
    if (wrong) remarks.push_back(std::move(remark));
  };
  const std::string storage = text(now, "storage");
  add(storage.find("refused") != std::string::npos,
      fmt::format(
          "storage is read by {}; allow io_uring (kernel.io_uring_disabled, the container's "
          "seccomp profile)",
          storage));
  add(storage.find("unregistered") != std::string::npos,
      fmt::format("storage is read by {}: memory that may be locked is bounded to {}; raise it "
                  "(LimitMEMLOCK, ulimit -l)",
                  storage, bytes_text(all.now("locked_memory_most"))));
  add(all.change("unregistered_staging") > 0,
      fmt::format("{:.0f} reads found no room in the staging memory; raise storage.staging",
                  all.change("unregistered_staging")));
  add(now.contains("files_most") && all.now("files_most") < 4096,
      fmt::format("the service may open {:.0f} files, and each slab of blocks is one; raise it "
                  "(LimitNOFILE, ulimit -n)",
                  all.now("files_most")));
  add(all.change("read_errors") > 0,
      fmt::format("{:.0f} reads failed; look at the drive (dmesg)", all.change("read_errors")));
  add(all.now("corrupt_samples") > 0,
      fmt::format("{:.0f} samples are corrupt; batchflowctl verify names them",
                  all.now("corrupt_samples")));
  const double blocks = all.change("prepared_blocks");
  add(blocks > 0 && all.change("remakes") > blocks / 10,
      fmt::format("{} of the blocks had been prepared before and were gone; give more memory "
                  "(--memory)",
                  percent(all.change("remakes") / std::max(1.0, blocks))));
  return remarks;
}

}  // namespace batchflow::ctl
