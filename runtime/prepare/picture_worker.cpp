#include "runtime/prepare/picture_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "core/base/check.h"
#include "core/order/keys.h"

namespace batchflow::prepare {
namespace {

const std::uint8_t* pixels_of(const std::byte* decoded_form) {
  return reinterpret_cast<const std::uint8_t*>(decoded_form) + PictureBuffer::kHeader;
}

}  // namespace

bool PictureWorker::begin(const PicturePlan& plan, const Input& input, Extent2& kept) {
  is_given_up_ = input.is_given_up;
  holds_ = nullptr;
  if (input.decoded) {
    if (!read_decoded(input.bytes, shows_)) return fail("the decoded form is damaged");
    operations_.begin(shows_.extent);
    origin_ = whole(shows_.extent);
  } else {
    if (!open(input.bytes, plan.limits)) return false;
    operations_.begin(decoder_->extent());
  }
  stored_extent_ = input.decoded ? input.stored_extent : operations_.extent();
  std::size_t from = input.decoded ? plan.kept : 0;
  if (input.keep) {
    if (!operations_.choose(plan, from, plan.kept, input.draw_key))
      return fail(operations_.problem());
    from = plan.kept;
    kept = operations_.extent();
    operations_.begin_part();
  }
  if (!operations_.choose(plan, from, plan.steps.size(), input.draw_key))
    return fail(operations_.problem());
  return !input.is_followed || choose_followed(plan, input);
}

// A step that is joined with the one before it may round otherwise, so it must not matter to
// coordinates where the decoded form was kept.
bool PictureWorker::choose_followed(const PicturePlan& plan, const Input& input) {
  followed_ = &operations_;
  if (!input.decoded && !input.keep) return true;
  followed_ = &of_followers_;
  of_followers_.begin(stored_extent_);
  return of_followers_.choose(plan, 0, plan.steps.size(), input.draw_key) ||
         fail(of_followers_.problem());
}

bool PictureWorker::run(const PicturePlan& plan, const Input& input, std::byte* out) {
  const bool decoded = input.decoded;
  const Keep* const keep = input.keep;
  Extent2 kept;
  if (!begin(plan, input, kept)) return false;
  Bytes beside = input.beside;
  for (const MaskAlong& mask : input.masks)
    if (!add_needs(mask, plan.limits, beside)) return false;
  // If the decoded form is kept, the operations after it cannot reduce what is decoded.
  const std::size_t first_end = keep ? operations_.part() : operations_.all().size();
  const auto* first = first_end == 0 ? nullptr : std::get_if<Scaling>(&operations_.all().front());
  const Box wanted = decoded ? Box{} : first ? needed(*first) : whole(decoder_->extent());
  std::byte* const stays = keep ? (*keep)(PictureBuffer::bytes(kept)) : nullptr;
  // Nothing is done to the picture before it is kept: it is decoded to where it stays.
  const bool in_place = stays && !decoded && first_end == 0;
  if (!reserve(wanted, !decoded, decoded || in_place, beside)) return false;
  if (!decoded && !decode(wanted, in_place ? stays : nullptr)) return false;
  // A scaling that comes last is finished row by row.
  const Scaling* last = operations_.last_scaling();
  const std::size_t end = operations_.all().size() - (last ? 1 : 0);
  if (!carry_out(0, std::min(first_end, end))) return false;
  if (stays && shows_.pixels == pixels_of(stays)) {
    write_decoded_header(shows_.extent, stays);
  } else if (stays) {
    write_decoded(shows_, stays);
  }
  if (!carry_out(std::min(first_end, end), end)) return false;
  if (last && is_given_up_ && *is_given_up_) return fail(kGivenUp);
  finish(plan, last, input.draw_key, out);
  return std::all_of(input.masks.begin(), input.masks.end(),
                     [&](const MaskAlong& mask) { return run(mask, plan.limits); });
}

void PictureWorker::finish(const PicturePlan& plan, const Scaling* last, std::uint64_t draw_key,
                           std::byte* out) {
  if (last)
    resampler_.run(*last, shows_, origin_, *plan.finish, out);
  else
    plan.finish->write(shows_, kernels_, out);
  if (!plan.erasing) return;
  Random draws(order::step_seed(draw_key, plan.erasing->draw));
  erase(plan.erasing->step, draws, operations_.extent(), plan.finish->type(),
        plan.finish->has_planes(), out);
}

void PictureWorker::end() {
  decoders_.end();
  mask_decoders_.end();
}

Bytes PictureWorker::held() const {
  return buffers_[0].held() + buffers_[1].held() + buffers_[2].held() + resampler_.held() +
         blurrer_.held() + decoders_.held() + mask_decoders_.held();
}

void PictureWorker::drop() {
  for (PictureBuffer& buffer : buffers_) buffer.drop();
  resampler_.drop();
  blurrer_.drop();
  decoders_.drop();
  mask_decoders_.drop();
}

bool PictureWorker::open(std::span<const std::byte> bytes, const DecodeLimits& limits) {
  decoder_ = decoders_.find(bytes);
  if (!decoder_) return fail(decoders_.problem());
  if (decoder_->open(bytes, limits)) return true;
  if (decoder_->ran_out_of_memory()) throw std::bad_alloc();
  return fail(decoder_->problem());
}

bool PictureWorker::fail(std::string_view problem) {
  problem_ = problem;
  return false;
}

// ---------------------------------------------------------------------------------- views ----

bool PictureWorker::run_views(const CompiledPipeline& pipeline, const Input& input,
                              const batch::BlockWriter& out, std::uint32_t index) {
  const PicturePlan& plan = *pipeline.picture();
  const bool decoded = input.decoded;
  const Keep* const keep = input.keep;
  Extent2 kept;
  if (!begin(plan, input, kept)) return false;
  const std::size_t end = operations_.all().size();
  const std::size_t first_end = keep ? operations_.part() : end;
  const auto* first = first_end == 0 ? nullptr : std::get_if<Scaling>(&operations_.all().front());
  const Box wanted = decoded ? Box{} : first ? needed(*first) : whole(decoder_->extent());
  std::byte* const stays = keep ? (*keep)(PictureBuffer::bytes(kept)) : nullptr;
  const bool in_place = stays && !decoded && first_end == 0;
  const std::uint64_t draw_key = order::step_seed(input.draw_key, pipeline.views_draw());
  Bytes beside = input.beside;
  if (!add_view_needs(pipeline, draw_key, beside)) return false;
  if (!reserve(wanted, !decoded, decoded || in_place, beside)) return false;
  if (!decoded && !decode(wanted, in_place ? stays : nullptr)) return false;
  if (!carry_out(0, first_end)) return false;
  if (stays && shows_.pixels == pixels_of(stays))
    write_decoded_header(shows_.extent, stays);
  else if (stays)
    write_decoded(shows_, stays);
  if (!carry_out(first_end, end)) return false;
  // What all views begin with stays where it is, and another buffer takes its turns.
  const PictureView base = shows_;
  const auto turn = std::find(turns_.begin(), turns_.end(), holds_);
  PictureBuffer* const lent = turn == turns_.end() ? nullptr : std::exchange(*turn, &buffers_[2]);
  bool done = true;
  for (const ViewPlan& view : pipeline.views())
    for (std::uint32_t i = 0; done && i < view.count; ++i)
      done = run_view(view.plan, base, order::step_seed(draw_key, view.first + i),
                      out.row(view.plan.field, index) + view.bytes * i);
  if (lent) *turn = lent;
  return done;
}

bool PictureWorker::add_view_needs(const CompiledPipeline& pipeline, std::uint64_t draw_key,
                                   Bytes& needs) {
  MemoryNeeds most;
  for (const ViewPlan& view : pipeline.views()) {
    for (std::uint32_t i = 0; i < view.count; ++i) {
      of_view_.begin(operations_.extent());
      if (!of_view_.choose(view.plan, 0, view.plan.steps.size(),
                           order::step_seed(draw_key, view.first + i)))
        return fail(of_view_.problem());
      most.add(of_view_.all(), operations_.extent(), true);
    }
  }
  needs = memory::counted_sum(needs, most.sum());
  return true;
}

bool PictureWorker::run_view(const PicturePlan& plan, const PictureView& base,
                             std::uint64_t draw_key, std::byte* out) {
  shows_ = base;
  holds_ = nullptr;
  origin_ = whole(base.extent);
  operations_.begin(base.extent);
  if (!operations_.choose(plan, 0, plan.steps.size(), draw_key)) return fail(operations_.problem());
  const Scaling* const last = operations_.last_scaling();
  if (!carry_out(0, operations_.all().size() - (last ? 1 : 0))) return false;
  if (last && is_given_up_ && *is_given_up_) return fail(kGivenUp);
  finish(plan, last, draw_key, out);
  return true;
}

bool PictureWorker::begin_frames(const PicturePlan& plan, Extent2 extent, const Input& input) {
  is_given_up_ = input.is_given_up;
  operations_.begin(extent);
  if (!operations_.choose(plan, 0, plan.steps.size(), input.draw_key))
    return fail(operations_.problem());
  const Bytes needs = memory_needs(operations_.all(), extent, true);
  return scratch_.take(memory::counted_sum(needs, input.beside)) || fail(scratch_.problem());
}

// ---------------------------------------------------------------------------------- masks ----

Decoder* PictureWorker::open(const MaskAlong& mask, const DecodeLimits& limits) {
  Decoder* const decoder = mask_decoders_.find(mask.bytes);
  if (!decoder) {
    fail(mask, mask_decoders_.problem());
    return nullptr;
  }
  if (!decoder->open(mask.bytes, limits)) {
    if (decoder->ran_out_of_memory()) throw std::bad_alloc();
    fail(mask, decoder->problem());
    return nullptr;
  }
  if (decoder->extent() == stored_extent_) return decoder;
  fail(mask, fmt::format("it has {} x {} pixels, and its picture {} x {}", decoder->extent().width,
                         decoder->extent().height, stored_extent_.width, stored_extent_.height));
  return nullptr;
}

bool PictureWorker::add_needs(const MaskAlong& mask, const DecodeLimits& limits, Bytes& needs) {
  const Decoder* const decoder = open(mask, limits);
  if (!decoder) return false;
  follow_with_mask(followed(), mask.fill, of_mask_);
  needs = memory::counted_sum(needs, decoder->needs(whole(stored_extent_)));
  needs = memory::counted_sum(needs, memory_needs(of_mask_, stored_extent_, false));
  return true;
}

// The picture is finished, so its buffers are free.
bool PictureWorker::run(const MaskAlong& mask, const DecodeLimits& limits) {
  if (is_given_up_ && *is_given_up_) return fail(kGivenUp);
  Decoder* const decoder = open(mask, limits);
  if (!decoder) return false;
  if (decoder->decode(whole(stored_extent_), buffers_[0]).width == 0) {
    if (decoder->ran_out_of_memory()) throw std::bad_alloc();
    return fail(mask, decoder->problem());
  }
  show(buffers_[0]);
  follow_with_mask(followed(), mask.fill, of_mask_);
  for (const Operation& operation : of_mask_)
    if (!carry_out(operation)) return false;
  if (write_mask(shows_, mask.type, mask.out)) return true;
  return fail(mask, fmt::format("it has a value that is no {}", batch::element_name(mask.type)));
}

bool PictureWorker::fail(const MaskAlong& mask, std::string_view problem) {
  problem_ = fmt::format("field '{}': {}", mask.field, problem);
  return false;
}

// --------------------------------------------------------------------------------- memory ----

bool PictureWorker::reserve(const Box& wanted, bool decode, bool in_foreign, Bytes beside) {
  Bytes needs = beside;
  if (decode) needs = memory::counted_sum(needs, decoder_->needs(wanted));
  const Extent2 first = decode ? decoder_->decoded_most(wanted) : shows_.extent;
  needs = memory::counted_sum(needs, memory_needs(operations_.all(), first, in_foreign));
  if (scratch_.take(needs)) return true;
  return fail(decode ? fmt::format("{} x {} pixels: {}", decoder_->extent().width,
                                   decoder_->extent().height, scratch_.problem())
                     : scratch_.problem());
}

// --------------------------------------------------------------------------- carrying out ----

bool PictureWorker::decode(const Box& wanted, std::byte* memory) {
  buffers_[0].make_in(memory, decoder_->extent());
  origin_ = decoder_->decode(wanted, buffers_[0]);
  if (origin_.width == 0) {
    if (decoder_->ran_out_of_memory()) throw std::bad_alloc();
    return fail(decoder_->problem());
  }
  holds_ = buffers_[0].is_foreign() ? nullptr : &buffers_[0];
  shows_ = buffers_[0].view();
  buffers_[0].make_in(nullptr, {});
  return true;
}

bool PictureWorker::carry_out(std::size_t from, std::size_t to) {
  for (; from < to; ++from) {
    if (is_given_up_ && *is_given_up_) return fail(kGivenUp);
    if (!carry_out(operations_.all()[from])) return false;
  }
  return true;
}

bool PictureWorker::carry_out(const Operation& operation) {
  return std::visit([this](const auto& one) { return carry_out(one); }, operation);
}

bool PictureWorker::show(PictureBuffer& picture) {
  holds_ = &picture;
  shows_ = picture.view();
  origin_ = whole(shows_.extent);
  return true;
}

PictureBuffer& PictureWorker::other_buffer() {
  return holds_ == turns_[0] ? *turns_[1] : *turns_[0];
}

bool PictureWorker::carry_out(const Scaling& scaling) {
  PictureBuffer& out = other_buffer();
  resampler_.run(scaling, shows_, origin_, out);
  return show(out);
}

PictureBuffer& PictureWorker::own_picture() {
  if (!holds_) carry_out(Scaling{origin_, origin_.extent(), origin_});
  return *holds_;
}

bool PictureWorker::carry_out(const Pad& one) {
  BF_CHECK(origin_ == whole(shows_.extent));
  PictureBuffer& out = other_buffer();
  pad(one, shows_, out);
  return show(out);
}

bool PictureWorker::carry_out(const Warp& one) {
  BF_CHECK(origin_ == whole(shows_.extent));
  PictureBuffer& out = other_buffer();
  warp(one, shows_, out);
  return show(out);
}

bool PictureWorker::carry_out(const Jitter& jitter) {
  PictureBuffer& picture = own_picture();
  for (const ColourChange change : jitter.order)
    apply(change, jitter.factor[static_cast<std::size_t>(change)], picture);
  return true;
}

bool PictureWorker::carry_out(const PointChange& change) {
  apply(change, own_picture());
  return true;
}

bool PictureWorker::carry_out(const Sharpening& sharpening) {
  BF_CHECK(origin_ == whole(shows_.extent));
  PictureBuffer& out = other_buffer();
  sharpen(sharpening, shows_, out);
  return show(out);
}

bool PictureWorker::carry_out(const Blur& blur) {
  BF_CHECK(origin_ == whole(shows_.extent));
  PictureBuffer& out = other_buffer();
  blurrer_.run(blur, shows_, out);
  return show(out);
}

bool PictureWorker::carry_out(const ByPlugin& made) {
  BF_CHECK(origin_ == whole(shows_.extent));
  const auto width = static_cast<std::size_t>(shows_.extent.width);
  const auto height = static_cast<std::size_t>(shows_.extent.height);
  const std::size_t row = width * kChannels;
  PictureBuffer& out = other_buffer();
  out.reset(made.size);
  const std::size_t bytes = out.stride() * static_cast<std::size_t>(made.size.height);
  std::byte* in = plugins_.begin(made.step->plugin, row * height, bytes);
  if (!in) return fail(plugins_.problem());
  for (int y = 0; y < shows_.extent.height; ++y, in += row) std::memcpy(in, shows_.row(y), row);
  const std::byte* result =
      plugins_.run(std::array<std::uint64_t, 3>{height, width, kChannels}, made.seed);
  if (!result) return fail(plugins_.problem());
  std::memcpy(out.pixels(), result, bytes);
  return show(out);
}

}  // namespace batchflow::prepare
