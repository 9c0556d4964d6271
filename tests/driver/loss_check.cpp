#include "tests/driver/loss_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/driver/machine.h"

namespace batchflow::test {
namespace {

constexpr double kWhole = 4294967296.0;

}  // namespace

LossCheck::LossCheck(const std::string& policy, std::vector<float> losses)
    : policy_(policy), losses_(std::move(losses)) {}

double LossCheck::parameter(const std::string& name, double otherwise) const {
  const std::size_t at = policy_.find(":" + name + "=");
  return at == std::string::npos ? otherwise : std::stod(policy_.substr(at + name.size() + 2));
}

// Of sources that weigh something: what they should weigh together with the others, or nothing
// where that depends on when the policy was asked.
std::vector<double> LossCheck::wanted(const std::vector<double>& now) const {
  const bool grows = policy_.starts_with("excess-loss");
  if (!grows && !policy_.starts_with("softmax")) return {};
  const double factor = grows ? parameter("rate", 1) : 1 / parameter("temperature", 1);
  double most = -INFINITY;
  double sum = 0;
  double count = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] > 0) most = std::max(most, factor * losses_[i]);
  }
  std::vector<double> target(now.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] == 0) continue;
    target[i] = std::exp(factor * losses_[i] - most) * (grows ? now[i] : 1);
    sum += target[i];
    ++count;
  }
  const double least = std::min(parameter("least", 0.01), 1 / count);
  double farthest = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] == 0) continue;
    target[i] = least + (1 - count * least) * target[i] / sum;
    farthest = std::max(farthest, std::abs(target[i] - now[i]));
  }
  const double change = parameter("change", 0.1);
  const double part = farthest > change ? change / farthest : 1;
  for (std::size_t i = 0; i < now.size(); ++i) target[i] = now[i] + part * (target[i] - now[i]);
  return target;
}

void LossCheck::changed(const std::vector<std::uint64_t>& before,
                        const std::vector<std::uint64_t>& after, std::uint64_t ahead) {
  std::vector<double> now;
  std::vector<double> then;
  double sources = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    now.push_back(static_cast<double>(before[i]) / kWhole);
    then.push_back(static_cast<double>(after[i]) / kWhole);
    sources += before[i] > 0 ? 1 : 0;
  }
  constexpr double kOff = 1e-6;
  const double least = std::min(parameter("least", 0.01), 1 / sources);
  const double change = parameter("change", 0.1);
  const std::vector<double> exact = wanted(now);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (std::abs(then[i] - now[i]) > change + kOff)
      violated(fmt::format("source {} weighs {} instead of {} at once", i, then[i], now[i]));
    if ((now[i] == 0) != (then[i] == 0) && then[i] > kOff)
      violated(fmt::format("source {} weighs {}, and weighed {}", i, then[i], now[i]));
    if (now[i] >= least + kOff && then[i] < least - kOff)
      violated(fmt::format("source {} weighs {}, and {} is the least", i, then[i], least));
    if (!exact.empty() && std::abs(then[i] - exact[i]) > kOff)
      violated(fmt::format("source {} weighs {}, and should weigh {}", i, then[i], exact[i]));
  }
  ++changes_;
  if (static_cast<double>(changes_) >
      static_cast<double>(ahead) / parameter("every", 10000) + 1 + static_cast<double>(beginnings_))
    violated(fmt::format("{} changes of the weights by draw {}", changes_, ahead));
}

}  // namespace batchflow::test
