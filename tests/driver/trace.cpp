// Events and commands in a line each: what BATCHFLOW_TRACE=1 prints of a run that is repeated.
#include "tests/driver/trace.h"

#include <fmt/format.h>

namespace batchflow::test {

namespace {

std::string name(const engine::Request& request) {
  return fmt::format("#{:x}.{}", request.id.value, request.attempt);
}
std::string name(const order::Lineage& lineage) {
  return fmt::format("(g{} v{} r{} b{})", lineage.name.generation, lineage.name.lane,
                     lineage.name.pass, lineage.name.block);
}
std::string name(const Place& place) {
  return fmt::format("n{}t{}", place.node.value, static_cast<int>(place.tier));
}

struct Words {
  std::string operator()(const engine::CatalogueKnown&) { return "catalogue known"; }
  std::string operator()(const engine::PipelineKnown&) { return "pipeline known"; }
  std::string operator()(const engine::JobJoined& e) {
    return fmt::format("job {} joined, {} ranks, b {}", e.job.value, e.ranks.size(),
                       e.batch_samples);
  }
  std::string operator()(const engine::JobLeft& e) {
    return fmt::format("job {} left", e.job.value);
  }
  std::string operator()(const engine::RankLost& e) {
    return fmt::format("job {} rank {} lost", e.job.value, e.rank);
  }
  std::string operator()(const engine::JobResized& e) {
    return fmt::format("job {} resized, {} ranks, b {}", e.job.value, e.ranks.size(),
                       e.batch_samples);
  }
  std::string operator()(const engine::BatchWanted& e) {
    return fmt::format("job {} rank {} wants {}", e.job.value, e.rank, e.credits);
  }
  std::string operator()(const engine::SamplesWanted& e) {
    return fmt::format("job {} rank {} wants {} samples", e.job.value, e.rank, e.samples.size());
  }
  std::string operator()(const engine::BatchConsumed& e) {
    return fmt::format("job {} rank {} consumed {}", e.job.value, e.rank, e.step);
  }
  std::string operator()(const engine::SlotReleased& e) {
    return fmt::format("job {} rank {} released {}", e.job.value, e.rank, e.step);
  }
  std::string operator()(const engine::ScoresReported& e) {
    return fmt::format("job {} scores", e.job.value);
  }
  std::string operator()(const engine::ExemplarsReported& e) {
    std::string text = fmt::format("job {} exemplars{} from {}{}:", e.job.value,
                                   e.anew ? " anew" : "", e.first, e.more ? ", more to come" : "");
    for (const SampleId sample : e.samples) text += fmt::format(" {}", sample.value);
    return text;
  }
  std::string over(const char* what, const engine::Request& request, engine::Outcome outcome) {
    return fmt::format("{} {} over: {}", what, name(request), static_cast<int>(outcome));
  }
  std::string operator()(const engine::ReadDone& e) { return over("read", e.request, e.outcome); }
  std::string operator()(const engine::PreparationDone& e) {
    return over("preparation", e.request, e.outcome);
  }
  std::string operator()(const engine::TransferDone& e) {
    return over("transfer", e.request, e.outcome);
  }
  std::string operator()(const engine::DeliveryDone& e) {
    return over("delivery", e.request, e.outcome);
  }
  std::string operator()(const engine::NodeJoined& e) {
    return fmt::format("node {} joined", e.node.value);
  }
  std::string operator()(const engine::NodeQuiesced& e) {
    return fmt::format("node {} quiesced", e.node.value);
  }
  std::string operator()(const engine::NodeLost& e) {
    return fmt::format("node {} lost", e.node.value);
  }
  std::string operator()(const engine::WorkerJoined& e) {
    return fmt::format("worker {} joined on {}", e.worker.value, e.node.value);
  }
  std::string operator()(const engine::WorkerQuiesced& e) {
    return fmt::format("worker {} quiesced", e.worker.value);
  }
  std::string operator()(const engine::WorkerLost& e) {
    return fmt::format("worker {} lost", e.worker.value);
  }
  std::string operator()(const engine::CapacityChanged& e) {
    return fmt::format("{} has {} bytes", name(e.place), e.bytes);
  }
  std::string operator()(const engine::DecodedMeasured& e) {
    return fmt::format("decoded samples of dataset {} in share {} take {} bytes", e.dataset.value,
                       e.share.value, e.bytes);
  }
  std::string operator()(const engine::DatasetKept& e) {
    return fmt::format("dataset {} kept {}", e.dataset.value, static_cast<int>(e.keep));
  }
  std::string operator()(const engine::PolicyChanged& e) {
    return fmt::format("policy {}", e.text);
  }
  std::string operator()(const engine::ConfigurationChanged& e) {
    return fmt::format("set {}", e.text);
  }
  std::string operator()(const engine::TimerFired&) { return "timer"; }
  std::string operator()(const engine::SamplesKept& e) {
    return fmt::format("{} has kept {} items of dataset {}", name(e.place), e.samples.size(),
                       e.dataset.value);
  }

  std::string operator()(const engine::SamplesDescribed& e) {
    return fmt::format("job {} describes {} samples", e.job.value, e.samples.size());
  }
  std::string operator()(const engine::BufferPromised& e) {
    return fmt::format("buffer {} has {} exemplars", e.buffer, e.exemplars.size());
  }
  std::string operator()(const engine::MixtureChanged& e) {
    return fmt::format("other weights for job {} from draw {} on", e.job.value, e.at);
  }

  std::string operator()(const engine::LossesReported& e) {
    return fmt::format("job {} loses on {} sources", e.job.value, e.losses.size());
  }
  std::string operator()(const engine::SourceGrew& e) {
    return fmt::format("dataset {} has records {} to {}{}", e.dataset.value, e.first, e.end,
                       e.ended ? ", and no others will come" : "");
  }

  std::string operator()(const engine::Admit& c) {
    return fmt::format("admit job {} to stream {}, {} credits, from step {}", c.job.value,
                       c.stream.value, c.credits, c.first_step);
  }
  std::string operator()(const engine::Refuse& c) {
    return fmt::format("refuse job {}: {} ({} of {})", c.job.value, static_cast<int>(c.why),
                       c.needed, c.available);
  }
  std::string operator()(const engine::Read& c) {
    std::string text = fmt::format("read {} from {} to {} form {} keep {} for {}:", name(c.request),
                                   name(c.from), name(c.to), static_cast<int>(c.form),
                                   static_cast<int>(c.keep.value), name(c.lineage));
    for (const SampleId sample : c.samples) text += fmt::format(" {}", sample.value);
    return text;
  }
  std::string operator()(const engine::Prepare& c) {
    std::string text = fmt::format("prepare {} {} by {} into share {} slot {}:", name(c.request),
                                   name(c.lineage), c.worker.value, c.share.value, c.slot.value);
    for (const engine::Ingredient& one : c.ingredients) {
      text += fmt::format(" {}{}{}", one.sample.value, one.form == Form::decoded ? "d" : "",
                          one.keep_decoded ? "+" : "");
    }
    if (c.kept_to > 0) text += fmt::format(" kept [{},{})", c.kept_from, c.kept_to);
    return text;
  }
  std::string operator()(const engine::Transfer& c) {
    return fmt::format("transfer {} share {} slot {} [{},{}) to share {} slot {} at {}",
                       name(c.request), c.from_share.value, c.from_slot.value, c.slice.from,
                       c.slice.to, c.to_share.value, c.to_slot.value, c.offset_samples);
  }
  std::string operator()(const engine::Deliver& c) {
    return fmt::format("deliver {} to job {} rank {} step {} epoch {} share {} slot {}{}{}",
                       name(c.request), c.job.value, c.rank, c.step, c.epoch, c.share.value,
                       c.slot.value, c.in_place ? " in place" : "", c.last_of_epoch ? " last" : "");
  }
  std::string operator()(const engine::Drop& c) {
    return fmt::format("drop share {} item {} slot {} at {}", c.share.value, c.item.value,
                       static_cast<int>(c.slot.value), name(c.place));
  }
  std::string operator()(const engine::Cancel& c) { return "cancel " + name(c.request); }
  std::string operator()(const engine::Release& c) { return "release " + name(c.request); }
  std::string operator()(const engine::EpochEnded& c) {
    return fmt::format("job {} epoch {} ended with {}", c.job.value, c.epoch, c.samples);
  }
  std::string operator()(const engine::SetWorkers& c) {
    return fmt::format("node {} should have {} workers", c.node.value, c.workers);
  }
  std::string operator()(const engine::SetTimer& c) {
    return fmt::format("timer at {}", c.at.time_since_epoch().count());
  }
  std::string operator()(const engine::LetGo& c) {
    return fmt::format("node {} may end", c.node.value);
  }
  std::string operator()(const engine::ExemplarsSet& c) {
    return fmt::format("job {} rehearses from {} exemplars", c.job.value, c.samples.size());
  }
  std::string operator()(const engine::MixtureSet& c) {
    return fmt::format("job {} has other weights from draw {} on", c.job.value, c.at);
  }
  std::string operator()(const engine::SourcePaced& c) {
    return fmt::format("dataset {} is needed from record {} on{}", c.dataset.value, c.needed_from,
                       c.waits ? ", and its producers wait" : "");
  }
  std::string operator()(const engine::Adopt& c) {
    return fmt::format("share {} at {} has what was kept of dataset {}", c.share.value,
                       name(c.place), c.dataset.value);
  }
};

}  // namespace

std::string text(const engine::Event& event) {
  return std::visit(Words{}, event);
}
std::string text(const engine::Command& command) {
  return std::visit(Words{}, command);
}

}  // namespace batchflow::test
