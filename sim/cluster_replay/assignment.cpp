#include "sim/cluster_replay/assignment.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/base/random.h"

namespace batchflow::sim {

namespace {

constexpr std::uint64_t kNameless = 0x6e616d656c657373;

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t value = text.size();
  for (const char c : text) value = hash(value, static_cast<unsigned char>(c));
  return value;
}

bool takes(const input::OverlayClass& overlay_class, const traces::JobTrace& trace,
           const traces::JobRecord& job) {
  const auto among = [](const std::vector<std::string>& words, std::string_view text) {
    return words.empty() || std::any_of(words.begin(), words.end(), [&](const std::string& word) {
             return text.find(word) != std::string_view::npos;
           });
  };
  const Duration lasts(std::max<std::int64_t>(job.duration_ns, 0));
  return job.gpus() >= overlay_class.gpus_least &&
         (overlay_class.gpus_most == 0 || job.gpus() <= overlay_class.gpus_most) &&
         lasts >= overlay_class.lasts_least &&
         (overlay_class.lasts_most.count() == 0 || lasts <= overlay_class.lasts_most) &&
         (overlay_class.users.empty() ||
          std::count(overlay_class.users.begin(), overlay_class.users.end(),
                     std::string(trace.text(job.user))) > 0) &&
         among(overlay_class.names, trace.text(job.name));
}

class Assigner {
 public:
  Assigner(const traces::JobTrace& trace, const input::OverlayModel& overlay, std::uint64_t seed)
      : trace_(trace), overlay_(overlay), seed_(seed), known_(overlay.classes.size()) {
    for (const input::OverlayClass& overlay_class : overlay.classes) {
      // By rank: the sum of 1 / (i + 1)^exponent up to each dataset.
      std::vector<double> sums;
      double sum = 0;
      for (std::uint32_t i = 0; i < overlay_class.datasets; ++i) {
        sums.push_back(sum += std::pow(i + 1., -overlay.popularity));
      }
      popularity_.push_back(std::move(sums));
    }
  }

  Assignment run() {
    for (std::uint32_t i = 0; i < trace_.jobs.size(); ++i) add(i);
    return std::move(out_);
  }

 private:
  void add(std::uint32_t index) {
    const traces::JobRecord& record = trace_.jobs[index];
    // Each job without a user's name has a user of its own: nothing is known of what that user did
    // before.
    const std::string_view name = trace_.text(record.user);
    const std::uint64_t user = name.empty() ? hash(kNameless, index) : hash_of(name);
    const std::string_view id = trace_.text(record.id);
    Random random(hash(seed_, id.empty() ? hash(kNameless, index) : hash_of(id), user,
                       static_cast<std::uint64_t>(record.submit_ns)));
    const double reuses = input::uniform(random);
    const double prepares = input::uniform(random);
    AssignedJob job;
    job.record = index;
    const auto last = last_of_.find(user);
    const bool again =
        last != last_of_.end() && reuses < overlay_.reuse &&
        takes(overlay_.classes[out_.datasets[last->second].class_index], trace_, record);
    job.dataset = again ? last->second : pick(record, random);
    last_of_[user] = job.dataset;
    const AssignedDataset& dataset = out_.datasets[job.dataset];
    const input::OverlayClass& overlay_class = overlay_.classes[dataset.class_index];
    job.variant = prepares < overlay_.same_pipeline
                      ? 0
                      : 1 + static_cast<std::uint32_t>(hash(user, 1) % 1'000'000);
    job.gpus = std::max(1u, (record.gpus_hundredths + 99) / 100);
    job.samples_per_s = overlay_class.samples_per_s * overlay_class.speed.draw(random);
    const auto lasted = static_cast<double>(std::max<std::int64_t>(record.duration_ns, 0));
    job.compute = Duration(std::llround(lasted * overlay_.busy));
    job.passes = job.samples_per_s * job.gpus * static_cast<double>(job.compute.count()) * 1e-9 /
                 static_cast<double>(dataset.samples);
    out_.jobs.push_back(job);
  }

  std::uint32_t pick(const traces::JobRecord& record, Random& random) {
    double all = 0;
    weights_.clear();
    for (const input::OverlayClass& overlay_class : overlay_.classes) {
      weights_.push_back(all += takes(overlay_class, trace_, record) ? overlay_class.share : 0);
    }
    const auto index_at = [](const std::vector<double>& sums, double at) {
      const auto found = std::upper_bound(sums.begin(), sums.end(), at * sums.back());
      return static_cast<std::uint32_t>(
          std::min<std::ptrdiff_t>(found - sums.begin(), std::ssize(sums) - 1));
    };
    const std::uint32_t class_index = index_at(weights_, input::uniform(random));
    const std::uint32_t number = index_at(popularity_[class_index], input::uniform(random));
    std::vector<std::uint32_t>& known = known_[class_index];
    known.resize(std::max<std::size_t>(known.size(), number + 1), UINT32_MAX);
    if (known[number] == UINT32_MAX) {
      known[number] = static_cast<std::uint32_t>(out_.datasets.size());
      out_.datasets.push_back({class_index, number, samples_of(class_index, number)});
    }
    return known[number];
  }

  // A dataset is as large in every trace, whichever jobs come to it first.
  std::uint64_t samples_of(std::uint32_t class_index, std::uint32_t number) const {
    const input::OverlayClass& overlay_class = overlay_.classes[class_index];
    Random random(hash(seed_, hash_of(overlay_class.name), number));
    const double factor = overlay_class.dataset_size.draw(random);
    return std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(
               std::llround(static_cast<double>(overlay_class.dataset.samples) * factor)));
  }

  const traces::JobTrace& trace_;
  const input::OverlayModel& overlay_;
  const std::uint64_t seed_;
  std::vector<std::vector<double>> popularity_;  // by class
  std::vector<std::vector<std::uint32_t>>
      known_;  // by class and number: the index in out_.datasets
  std::unordered_map<std::uint64_t, std::uint32_t>
      last_of_;  // a user's last dataset; looked up only
  std::vector<double> weights_;
  Assignment out_;
};

}  // namespace

std::vector<std::pair<const char*, std::uint64_t>> left_out_reasons(const LeftOut& out) {
  return {
      {"use no GPU", out.without_gpus},
      {"never ran, or for an unknown time", out.without_duration},
      {"have no start on record (--scheduler fifo, sjf or las gives them one)", out.without_start},
      {"need more GPUs than there are", out.too_large},
      {"were submitted outside of the window", out.by_window},
      {"are left out by --scale-gpus", out.by_scale}};
}

Assignment assign(const traces::JobTrace& trace, const input::OverlayModel& overlay,
                  std::uint64_t seed) {
  return Assigner(trace, overlay, seed).run();
}

}  // namespace batchflow::sim
