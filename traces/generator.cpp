#include "traces/generator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/config_value.h"
#include "core/base/parameters.h"
#include "core/base/random.h"

namespace batchflow::traces {
namespace {

constexpr std::string_view kPrefix = "gen:";
constexpr std::string_view kMarks = ",?&";  // between its parts
constexpr double kMostRequests = static_cast<double>(AccessTraceBuilder::kMostRequests);
using Type = Parameter::Type;
using Wide = unsigned __int128;

// Parts of the seed, one for each thing that is drawn: a new part changes no other.
enum Part : std::uint64_t { kOrder, kSizes, kWeights, kDraws, kNames };

class Writer {
 public:
  // `bytes_per_item`: what the generator itself keeps of each item.
  Writer(const std::string& spec, const Parameters& parameters, double requests,
         double bytes_per_item, const Progress& progress)
      : builder_(spec),
        expected_(requests),
        progress_(progress),
        random_(static_cast<std::uint64_t>(parameters.integer("seed"))),
        least_(parameters.integer("size")),
        most_(std::max(least_, parameters.integer("size_most"))) {
    constexpr double kBuilderBytesPerItem = 80;  // its id, twice while the map grows, and its size
    if (requests > kMostRequests) {
      throw ConfigError(fmt::format("{}: {:.0f} requests are too many; write at most {:.0f}", spec,
                                    requests, kMostRequests));
    }
    if (parameters.integer("size_most") != 0 && parameters.integer("size_most") < least_) {
      throw ConfigError(fmt::format("{}: size_most {} is below size {}; write at least that", spec,
                                    parameters.integer("size_most"), least_));
    }
    builder_.expect(
        static_cast<std::size_t>(requests),
        static_cast<double>(parameters.integer("n")) * (bytes_per_item + kBuilderBytesPerItem));
  }

  Random part(std::uint64_t part) const { return random_.split(part); }
  void add(std::uint64_t id) {
    builder_.add(id, size_of(id));
    if (builder_.requests() % kReportEvery == 0 && progress_) {
      progress_(static_cast<double>(builder_.requests()) / expected_);
    }
  }
  AccessTrace finish() { return builder_.finish(); }

 private:
  static constexpr std::size_t kReportEvery = std::size_t{1} << 18;

  // Pareto with tail index 4/3, cut at size_most: many small items, few large ones.
  std::uint32_t size_of(std::uint64_t id) const {
    if (most_ == least_) return static_cast<std::uint32_t>(least_);
    const double root = std::sqrt(1.0 - part(kSizes).split(id).unit());
    const double size = static_cast<double>(least_) / (root * std::sqrt(root));
    return static_cast<std::uint32_t>(std::min(size, static_cast<double>(most_)));
  }

  AccessTraceBuilder builder_;
  double expected_;
  const Progress& progress_;
  Random random_;
  std::int64_t least_;
  std::int64_t most_;
};

std::vector<std::uint32_t> first_ids(std::size_t n) {
  std::vector<std::uint32_t> ids(n);
  for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<std::uint32_t>(i);
  return ids;
}

// ------------------------------------------------------------------------------------- perm ----

std::vector<std::uint64_t> parse_speeds(const std::string& spec, const Parameters& parameters) {
  const auto jobs = static_cast<std::size_t>(parameters.integer("jobs"));
  const std::string& text = parameters.text("speeds");
  std::vector<std::uint64_t> speeds;
  if (text == "falling") {
    for (std::size_t j = 0; j < jobs; ++j) speeds.push_back(jobs - j);
  } else if (text == "equal") {
    speeds.assign(jobs, 1);
  } else {
    std::uint64_t speed = 0;
    bool good = true;
    for (char c : text + ":") {
      if (c == ':') {
        good = good && speed > 0;
        speeds.push_back(speed);
        speed = 0;
      } else {
        good = good && c >= '0' && c <= '9' && speed < 100000;
        speed = 10 * speed + static_cast<std::uint64_t>(c - '0');
      }
    }
    if (!good || speeds.size() != jobs) {
      throw ConfigError(
          fmt::format("{}: speeds '{}' are wrong; write falling, equal, or {} "
                      "positive integers as 3:2:1",
                      spec, text, jobs));
    }
  }
  return speeds;
}

// A job that reads all samples once an epoch, in a fresh random order each time.
class Reader {
 public:
  Reader(std::size_t n, Random random) : order_(first_ids(n)), random_(random) {}
  std::uint32_t next() {
    if (at_ == order_.size()) at_ = 0;
    if (at_ == 0) shuffle(std::span(order_), random_);
    return order_[at_++];
  }

 private:
  std::vector<std::uint32_t> order_;
  std::size_t at_ = 0;
  Random random_;
};

// With speeds v of jobs, the k-th request of a job comes at time k/v; at the same time the first
// job comes first.
AccessTrace generate_perm(const std::string& spec, const Parameters& parameters,
                          const Progress& progress) {
  const auto n = static_cast<std::uint64_t>(parameters.integer("n"));
  const auto epochs = static_cast<std::uint64_t>(parameters.integer("epochs"));
  const std::vector<std::uint64_t> speeds = parse_speeds(spec, parameters);
  const std::uint64_t fastest = *std::max_element(speeds.begin(), speeds.end());
  std::vector<std::uint64_t> lasts;
  double requests = 0;
  for (std::uint64_t speed : speeds) {
    lasts.push_back(static_cast<std::uint64_t>(Wide{n} * epochs * speed / fastest));
    requests += static_cast<double>(lasts.back());
  }
  Writer writer(spec, parameters, requests,
                static_cast<double>(speeds.size() * sizeof(std::uint32_t)), progress);
  std::vector<Reader> readers;
  for (std::size_t j = 0; j < speeds.size(); ++j) {
    readers.emplace_back(n, writer.part(kOrder).split(j));
  }
  std::vector<std::uint64_t> done(speeds.size());
  for (;;) {
    std::size_t next = speeds.size();
    for (std::size_t j = 0; j < speeds.size(); ++j) {
      if (done[j] == lasts[j]) continue;
      const bool earlier =
          next == speeds.size() || (done[j] + 1) * speeds[next] < (done[next] + 1) * speeds[j];
      if (earlier) next = j;
    }
    if (next == speeds.size()) return writer.finish();
    ++done[next];
    writer.add(readers[next].next());
  }
}

// --------------------------------------------------------------------------------- weighted ----

// The first index with a prefix sum above a uniform draw from [0, sum).
std::size_t draw_by_prefix(const std::vector<double>& prefix, Random& random) {
  const double x = random.unit() * prefix.back();
  const auto at = std::upper_bound(prefix.begin(), prefix.end(), x) - prefix.begin();
  return std::min(static_cast<std::size_t>(at), prefix.size() - 1);
}

double pareto_weight(Random& random) {
  const double root = std::sqrt(1.0 - random.unit());
  return 1.0 / (root * std::sqrt(root));
}

// Draws with replacement by weights that change a little from epoch to epoch, as losses do.
AccessTrace generate_weighted(const std::string& spec, const Parameters& parameters,
                              const Progress& progress) {
  const auto n = static_cast<std::size_t>(parameters.integer("n"));
  const auto epochs = static_cast<std::size_t>(parameters.integer("epochs"));
  const double changed = parameters.number("changed");
  Writer writer(spec, parameters, static_cast<double>(n) * static_cast<double>(epochs),
                2 * sizeof(double), progress);
  Random weights_random = writer.part(kWeights);
  Random draws = writer.part(kDraws);
  std::vector<double> weights(n);
  std::vector<double> prefix(n);
  for (double& weight : weights) weight = pareto_weight(weights_random);
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (epoch > 0 && weights_random.unit() < changed) weights[i] = pareto_weight(weights_random);
      prefix[i] = sum += weights[i];
    }
    for (std::size_t k = 0; k < n; ++k) writer.add(draw_by_prefix(prefix, draws));
  }
  return writer.finish();
}

// ------------------------------------------------------------------------------------- zipf ----

// With alpha 1 only division is used, and the trace is the same on every machine. Other values go
// through pow, which may differ in the last bit between C libraries.
AccessTrace generate_zipf(const std::string& spec, const Parameters& parameters,
                          const Progress& progress) {
  const auto n = static_cast<std::size_t>(parameters.integer("n"));
  const auto requests = static_cast<std::size_t>(parameters.integer("requests"));
  const double alpha = parameters.number("alpha");
  Writer writer(spec, parameters, static_cast<double>(requests),
                sizeof(double) + sizeof(std::uint32_t), progress);
  std::vector<double> prefix(n);
  double sum = 0;
  for (std::size_t rank = 0; rank < n; ++rank) {
    const auto position = static_cast<double>(rank + 1);
    prefix[rank] = sum += alpha == 1.0 ? 1.0 / position : std::pow(position, -alpha);
  }
  std::vector<std::uint32_t> ids = first_ids(n);  // ids of popular items are random
  Random names = writer.part(kNames);
  shuffle(std::span(ids), names);
  Random draws = writer.part(kDraws);
  for (std::size_t k = 0; k < requests; ++k) writer.add(ids[draw_by_prefix(prefix, draws)]);
  return writer.finish();
}

// ------------------------------------------------------------------------------ the kinds ----

constexpr Parameter kN{"n", Type::integer, "100000", "samples of the dataset", 1, 4e9};
constexpr Parameter kEpochs{"epochs", Type::integer, "5", "epochs (of the fastest job)", 1, 1e9};
constexpr Parameter kSeed{"seed", Type::integer, "1", "another seed, another trace", 0, 9e18};
constexpr Parameter kSize{"size", Type::integer, "1", "size of each sample", 1, 4294967295.0};
constexpr Parameter kSizeMost{"size_most", Type::integer,
                              "0",         "if not 0: sizes from size to this, Pareto distributed",
                              0,           4294967295.0};

constexpr Parameter kPermParameters[] = {
    kN,
    kEpochs,
    {"jobs", Type::integer, "1", "jobs that read the dataset, each in its own order", 1, 1000},
    {"speeds", Type::text, "falling", "of the jobs: falling (4:3:2:1 for four), equal, or a list"},
    kSize,
    kSizeMost,
    kSeed};
constexpr Parameter kWeightedParameters[] = {
    kN,
    kEpochs,
    {"changed", Type::number, "0.1", "part of the samples with a new weight each epoch", 0, 1},
    kSize,
    kSizeMost,
    kSeed};
constexpr Parameter kZipfParameters[] = {
    kN,
    {"requests", Type::integer, "1000000", "requests in all", 1, 4294967294.0},
    {"alpha", Type::number, "1", "skew: the k-th most popular has weight k^-alpha", 0, 100},
    kSize,
    kSizeMost,
    kSeed};

constexpr Generator kGenerators[] = {
    {"perm", "training epochs: every sample once an epoch in a fresh random order", kPermParameters,
     generate_perm},
    {"weighted", "importance sampling: drawn by weight with replacement", kWeightedParameters,
     generate_weighted},
    {"zipf", "skewed popularity, as in web caches", kZipfParameters, generate_zipf},
};

const Generator& generator_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Generator& generator : kGenerators) {
    if (generator.name == name) return generator;
    names.push_back(generator.name);
  }
  const std::string nearest = nearest_name(name, names);
  throw ConfigError(
      fmt::format("unknown generator '{}{}'; {}the generators are {} (see gen:help)", kPrefix, name,
                  nearest.empty() ? "" : fmt::format("write '{}{}'; ", kPrefix, nearest),
                  fmt::join(names, ", ")));
}

// Sets a parameter by `parameter=value`; a name in `seen` was set before.
void set_parameter(Parameters& parameters, std::string_view assignment,
                   std::vector<std::string_view>& seen) {
  const std::size_t mark = assignment.find('=');
  if (mark == std::string_view::npos) {
    throw ConfigError(fmt::format("'{}' sets no parameter; write parameter=value", assignment));
  }
  const std::string_view name = assignment.substr(0, mark);
  if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
    throw ConfigError(fmt::format("parameter '{}' is set twice; keep one", name));
  }
  seen.push_back(name);
  parameters.set(name, assignment.substr(mark + 1));
}

}  // namespace

bool is_generator(std::string_view name) {
  return name.starts_with(kPrefix);
}

std::string_view generator_kind(const std::string& spec) {
  if (spec.find(' ') != std::string::npos) {
    throw ConfigError(
        fmt::format("'{}' has a space in it; write gen:KIND,parameter=value without any", spec));
  }
  const std::string_view rest = std::string_view(spec).substr(kPrefix.size());
  return rest.substr(0, rest.find_first_of(kMarks));
}

Parameters generator_parameters(const std::string& spec, std::span<const Parameter> declared) {
  std::string_view rest = std::string_view(spec).substr(kPrefix.size());
  const auto take = [&] {
    const std::size_t end = std::min(rest.find_first_of(kMarks), rest.size());
    const std::string_view head = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return head;
  };
  take();  // the kind
  Parameters parameters(declared);
  std::vector<std::string_view> seen;
  while (!rest.empty()) {
    try {
      set_parameter(parameters, take(), seen);
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: {}", spec, error.what()));
    }
  }
  return parameters;
}

AccessTrace generate_access_trace(const std::string& spec, const Progress& progress) {
  const Generator& generator = generator_named(generator_kind(spec));
  return generator.generate(spec, generator_parameters(spec, generator.parameters), progress);
}

std::span<const Generator> generators() {
  return kGenerators;
}

}  // namespace batchflow::traces
