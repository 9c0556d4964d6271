// The structs that the C interface of plugins shares with core/engine/policy.h lie alike in memory,
// so that host and plugin pass pointers to them and copy nothing.
#pragma once

#include <cstddef>
#include <type_traits>

#include "core/engine/policy.h"
#include "policies/plugin/batchflow_policy.h"

namespace batchflow::plugin {

#define BATCHFLOW_SAME(c, cpp)                                            \
  static_assert(sizeof(c) == sizeof(cpp) && alignof(c) == alignof(cpp) && \
                std::is_trivially_copyable_v<cpp>)
#define BATCHFLOW_SAME_FIELD(c, cpp, field)                   \
  static_assert(offsetof(c, field) == offsetof(cpp, field) && \
                sizeof(c::field) == sizeof(cpp::field))

BATCHFLOW_SAME(bf_access, engine::Access);
BATCHFLOW_SAME_FIELD(bf_access, engine::Access, item);
BATCHFLOW_SAME_FIELD(bf_access, engine::Access, slots);
BATCHFLOW_SAME_FIELD(bf_access, engine::Access, next_use);
BATCHFLOW_SAME_FIELD(bf_access, engine::Access, run);
BATCHFLOW_SAME_FIELD(bf_access, engine::Access, at);
BATCHFLOW_SAME_FIELD(bf_access, engine::Access, job);
BATCHFLOW_SAME_FIELD(bf_access, engine::Access, kept_decoded);

BATCHFLOW_SAME(bf_place, Place);
BATCHFLOW_SAME_FIELD(bf_place, Place, node);
BATCHFLOW_SAME_FIELD(bf_place, Place, tier);
BATCHFLOW_SAME_FIELD(bf_place, Place, device);

BATCHFLOW_SAME(bf_share_view, engine::ShareView);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, share);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, form);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, dataset);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, slot_bytes);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, slots_now);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, slots_used);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, slots_least);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, slots_ahead);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, slots_all);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, samples_all);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, jobs);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, ranks);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, weight);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, stall);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, wanted_per_s);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, made_per_s);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, requests_per_s);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, hit_ratio);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, worker_s);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, store_bytes);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, slots_needed);
BATCHFLOW_SAME_FIELD(bf_share_view, engine::ShareView, remade_per_s);

BATCHFLOW_SAME(bf_forecast, engine::Forecast);
BATCHFLOW_SAME_FIELD(bf_forecast, engine::Forecast, busy);
BATCHFLOW_SAME_FIELD(bf_forecast, engine::Forecast, store_bytes_per_s);

BATCHFLOW_SAME(bf_selection_candidate, engine::SelectionCandidate);
BATCHFLOW_SAME_FIELD(bf_selection_candidate, engine::SelectionCandidate, distance);
BATCHFLOW_SAME_FIELD(bf_selection_candidate, engine::SelectionCandidate, ready);
BATCHFLOW_SAME_FIELD(bf_selection_candidate, engine::SelectionCandidate, needed_by);
BATCHFLOW_SAME_FIELD(bf_selection_candidate, engine::SelectionCandidate, ready_s);

BATCHFLOW_SAME(bf_sample_candidate, engine::SampleCandidate);
BATCHFLOW_SAME_FIELD(bf_sample_candidate, engine::SampleCandidate, sample);
BATCHFLOW_SAME_FIELD(bf_sample_candidate, engine::SampleCandidate, passed_over);
BATCHFLOW_SAME_FIELD(bf_sample_candidate, engine::SampleCandidate, decoded);
BATCHFLOW_SAME_FIELD(bf_sample_candidate, engine::SampleCandidate, encoded);
BATCHFLOW_SAME_FIELD(bf_sample_candidate, engine::SampleCandidate, bytes);

BATCHFLOW_SAME(bf_work_candidate, engine::WorkCandidate);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, job);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, stream);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, asked);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, distance);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, depth);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, deadline);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, waiting);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, needed_by);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, lead);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, cached);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, prepare_s);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, stall_fraction);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, last_served);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, weight);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, latency_target);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, recent_stall);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, wanted_per_s);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, blocks_left);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, block_bytes);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, window);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, remake);
BATCHFLOW_SAME_FIELD(bf_work_candidate, engine::WorkCandidate, user);

BATCHFLOW_SAME(bf_node_candidate, engine::NodeCandidate);
BATCHFLOW_SAME_FIELD(bf_node_candidate, engine::NodeCandidate, node);
BATCHFLOW_SAME_FIELD(bf_node_candidate, engine::NodeCandidate, ranks);
BATCHFLOW_SAME_FIELD(bf_node_candidate, engine::NodeCandidate, workers);
BATCHFLOW_SAME_FIELD(bf_node_candidate, engine::NodeCandidate, started);
BATCHFLOW_SAME_FIELD(bf_node_candidate, engine::NodeCandidate, ahead);
BATCHFLOW_SAME_FIELD(bf_node_candidate, engine::NodeCandidate, kept);
BATCHFLOW_SAME_FIELD(bf_node_candidate, engine::NodeCandidate, in_per_s);
BATCHFLOW_SAME_FIELD(bf_node_candidate, engine::NodeCandidate, out_per_s);
BATCHFLOW_SAME_FIELD(bf_node_candidate, engine::NodeCandidate, coming);
BATCHFLOW_SAME_FIELD(bf_node_candidate, engine::NodeCandidate, going);
BATCHFLOW_SAME_FIELD(bf_node_candidate, engine::NodeCandidate, to_fetch);
BATCHFLOW_SAME_FIELD(bf_node_candidate, engine::NodeCandidate, to_send);

BATCHFLOW_SAME(bf_node_view, engine::NodeView);
BATCHFLOW_SAME_FIELD(bf_node_view, engine::NodeView, node);
BATCHFLOW_SAME_FIELD(bf_node_view, engine::NodeView, workers_now);
BATCHFLOW_SAME_FIELD(bf_node_view, engine::NodeView, workers_most);
BATCHFLOW_SAME_FIELD(bf_node_view, engine::NodeView, busy);
BATCHFLOW_SAME_FIELD(bf_node_view, engine::NodeView, ready_to_prepare);
BATCHFLOW_SAME_FIELD(bf_node_view, engine::NodeView, prepare_s);
BATCHFLOW_SAME_FIELD(bf_node_view, engine::NodeView, stall_fraction);
BATCHFLOW_SAME_FIELD(bf_node_view, engine::NodeView, now);
BATCHFLOW_SAME_FIELD(bf_node_view, engine::NodeView, busy_part);
BATCHFLOW_SAME_FIELD(bf_node_view, engine::NodeView, waits_for_reads);
BATCHFLOW_SAME_FIELD(bf_node_view, engine::NodeView, made_per_s);
BATCHFLOW_SAME_FIELD(bf_node_view, engine::NodeView, wanted_per_s);

BATCHFLOW_SAME(bf_job_view, engine::JobView);
BATCHFLOW_SAME_FIELD(bf_job_view, engine::JobView, job);
BATCHFLOW_SAME_FIELD(bf_job_view, engine::JobView, ranks);
BATCHFLOW_SAME_FIELD(bf_job_view, engine::JobView, step_s);
BATCHFLOW_SAME_FIELD(bf_job_view, engine::JobView, prepare_s);
BATCHFLOW_SAME_FIELD(bf_job_view, engine::JobView, blocks_per_step);
BATCHFLOW_SAME_FIELD(bf_job_view, engine::JobView, stall_fraction);
BATCHFLOW_SAME_FIELD(bf_job_view, engine::JobView, window);
BATCHFLOW_SAME_FIELD(bf_job_view, engine::JobView, now);
BATCHFLOW_SAME_FIELD(bf_job_view, engine::JobView, weight);
BATCHFLOW_SAME_FIELD(bf_job_view, engine::JobView, wanted_per_s);
BATCHFLOW_SAME_FIELD(bf_job_view, engine::JobView, user);

BATCHFLOW_SAME(bf_exemplar, engine::Exemplar);
BATCHFLOW_SAME_FIELD(bf_exemplar, engine::Exemplar, sample);
BATCHFLOW_SAME_FIELD(bf_exemplar, engine::Exemplar, label);
BATCHFLOW_SAME_FIELD(bf_exemplar, engine::Exemplar, is_scored);
BATCHFLOW_SAME_FIELD(bf_exemplar, engine::Exemplar, score);
BATCHFLOW_SAME_FIELD(bf_exemplar, engine::Exemplar, since);

BATCHFLOW_SAME(bf_source_view, engine::SourceView);
BATCHFLOW_SAME_FIELD(bf_source_view, engine::SourceView, samples);
BATCHFLOW_SAME_FIELD(bf_source_view, engine::SourceView, drawn);
BATCHFLOW_SAME_FIELD(bf_source_view, engine::SourceView, weight);
BATCHFLOW_SAME_FIELD(bf_source_view, engine::SourceView, is_known);
BATCHFLOW_SAME_FIELD(bf_source_view, engine::SourceView, loss);
BATCHFLOW_SAME_FIELD(bf_source_view, engine::SourceView, reports);

#undef BATCHFLOW_SAME
#undef BATCHFLOW_SAME_FIELD

}  // namespace batchflow::plugin
