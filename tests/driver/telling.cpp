// What jobs tell the service beside their steps: scores, exemplars, the samples of a listed order.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "tests/driver/driver.h"

namespace batchflow::test {

// A rank that trained on a batch may say how much its samples are worth. Some of what it says makes
// no sense.
void Driver::report_scores(Client& client, const Held& batch) {
  if (!chance_in_100(client.plan.scores_in_100)) return;
  constexpr float kScores[] = {0, 0.25F, 1, 1, 2, 3, 50, -1, 1e-9F, 1e30F, INFINITY, NAN};
  std::vector<engine::Score> scores;
  for (std::uint64_t i = 1 + random_.below(6); i > 0; --i) {
    const SampleId sample(random_.below(dataset_of(client).samples));
    scores.push_back({sample, kScores[random_.below(std::size(kScores))]});
  }
  if (random_.below(20) == 0) scores.push_back({SampleId(UINT64_MAX - random_.below(3)), 1});
  for (const engine::Score& score : scores) client.checker->scored(score.sample, score.value);
  score_lists_.push_back(std::move(scores));
  report(engine::ScoresReported{batch.job, score_lists_.back()});
}

// Other weights for the sources of a mixture, soon or somewhat later.
void Driver::ask_for_change(Client& client) {
  // As the library counts them; where few samples of a step are new, many steps lie ahead.
  if (client.position.fields().mixing->changes_left() <= client.changes_asked.size()) return;
  std::vector<double> weights;
  for (std::size_t i = 0; i < client.plan.sources.size(); ++i)
    weights.push_back(static_cast<double>(random_.below(4)));
  weights[random_.below(weights.size())] = 2;
  const std::uint64_t later = random_.below(2) * random_.below(60);
  const std::uint64_t at = client.checker->mixture()->counted() + later;
  client.changes_asked.push_back({at, order::Mixture::parts_of(weights)});
  part_lists_.push_back(client.changes_asked.back().parts);
  report(engine::MixtureChanged{client.id, at, part_lists_.back()});
}

// Each rank says what it loses, after each step.
void Driver::report_losses(Client& client) {
  if (client.plan.weights_policy.empty()) return;
  report(engine::LossesReported{client.id, client.plan.losses});
}

void Driver::tell_first_scores(Client& client) {
  const std::vector<engine::Score>& scores = client.plan.scores_first;
  for (const engine::Score& score : scores) client.checker->scored(score.sample, score.value);
  if (!scores.empty()) report(engine::ScoresReported{client.id, scores});
}

// The buffer is replaced, changed in part or emptied, in one event or in two that count together.
void Driver::report_exemplars(Client& client) {
  if (!client.plan.buffer_policy.empty()) return;  // the engine fills it
  const std::uint64_t samples = dataset_of(client).samples;
  std::vector<SampleId>& buffer = client.exemplars;
  const bool anew = random_.below(3) == 0;
  if (anew) buffer.clear();
  const auto first = static_cast<std::uint32_t>(random_.below(buffer.size() + 1));
  std::vector<SampleId> told;
  for (std::uint64_t i = random_.below(random_.below(2) == 0 ? 4 : 40); i > 0; --i) {
    told.emplace_back(random_.below(samples));
  }
  buffer.resize(std::max(buffer.size(), first + told.size()));
  std::copy(told.begin(), told.end(), buffer.begin() + first);
  const auto half = static_cast<std::uint32_t>(random_.below(told.size() + 1));
  const auto all = keep(std::move(told));
  if (random_.below(2) == 0) {
    report(engine::ExemplarsReported{client.id, anew, first, all, false});
  } else {
    report(engine::ExemplarsReported{client.id, anew, first, all.first(half), true});
    report(engine::ExemplarsReported{client.id, false, first + half, all.subspan(half), false});
  }
  client.checker->rehearsal().reported(buffer);
}

// ----------------------------------------------------------------------------- listed orders ----

void Driver::ask_listed(Client& client, Rank rank) {
  if (client.listed_sent >= client.plan.listed_batches) return;
  ++client.listed_sent;
  std::vector<SampleId> samples;
  for (std::uint32_t i = 0; i < client.batch_samples; ++i) {
    samples.emplace_back(random_.below(dataset_of(client).samples));
  }
  client.ranks[rank].asked.push_back(samples);
  report(engine::SamplesWanted{client.id, rank, keep(std::move(samples)), {}, {}});
}

void Driver::deliver_listed(Client& client, const engine::Deliver& command) {
  machine_.deliver_stored(command, client.plan.dataset);
  RankState& rank = client.ranks[command.rank];
  const std::size_t at = command.step - rank.next;
  if (command.step < rank.next || at >= rank.asked.size() + 8)
    violated("a batch that was not asked for");
  const auto& asked = rank.asked;
  bool found = false;
  for (const auto& samples : asked) {
    found = found ||
            std::equal(samples.begin(), samples.end(), command.ingredients.begin(),
                       command.ingredients.end(),
                       [](SampleId id, const engine::Ingredient& one) { return one.sample == id; });
  }
  if (!found) violated("a listed batch that is not what was asked for");
}

}  // namespace batchflow::test
