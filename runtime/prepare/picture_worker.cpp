#include "runtime/prepare/picture_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>
#include <type_traits>

#include "core/base/check.h"
#include "core/order/keys.h"

namespace batchflow::prepare {
namespace {

const std::uint8_t* pixels_of(const std::byte* decoded_form) {
  return reinterpret_cast<const std::uint8_t*>(decoded_form) + PictureBuffer::kHeader;
}

}  // namespace

bool PictureWorker::run(const PicturePlan& plan, std::span<const std::byte> bytes, bool decoded,
                        std::uint64_t draw_key, std::byte* out, const Keep* keep, Bytes beside,
                        const std::atomic<bool>* is_given_up) {
  is_given_up_ = is_given_up;
  holds_ = nullptr;
  if (decoded) {
    if (!read_decoded(bytes, shows_)) return fail("the decoded form is damaged");
    extent_ = shows_.extent;
    origin_ = whole(extent_);
  } else {
    if (!open(bytes, plan.limits)) return false;
    extent_ = decoder_->extent();
  }
  operations_.clear();
  begin_part();
  std::size_t from = decoded ? plan.kept : 0;
  Extent2 kept;
  if (keep) {
    if (!choose(plan, from, plan.kept, draw_key)) return false;
    from = plan.kept;
    kept = extent_;
    begin_part();
  }
  if (!choose(plan, from, plan.steps.size(), draw_key)) return false;
  // If the decoded form is kept, the operations after it cannot reduce what is decoded.
  const std::size_t first_end = keep ? part_ : operations_.size();
  const auto* first = first_end == 0 ? nullptr : std::get_if<Scaling>(&operations_.front());
  const Box wanted = decoded ? Box{} : first ? needed(*first) : whole(decoder_->extent());
  std::byte* const stays = keep ? (*keep)(PictureBuffer::bytes(kept)) : nullptr;
  // Nothing is done to the picture before it is kept: it is decoded to where it stays.
  const bool in_place = stays && !decoded && first_end == 0;
  if (!reserve(wanted, !decoded, decoded || in_place, beside)) return false;
  if (!decoded && !decode(wanted, in_place ? stays : nullptr)) return false;
  // A scaling that comes last is finished row by row.
  const Scaling* last = last_scaling();
  const std::size_t end = operations_.size() - (last ? 1 : 0);
  if (!carry_out(0, std::min(first_end, end))) return false;
  if (stays && shows_.pixels == pixels_of(stays)) {
    write_decoded_header(shows_.extent, stays);
  } else if (stays) {
    write_decoded(shows_, stays);
  }
  if (!carry_out(std::min(first_end, end), end)) return false;
  if (!last) {
    plan.finish->write(shows_, kernels_, out);
    return true;
  }
  if (is_given_up_ && *is_given_up_) return fail(kGivenUp);
  resampler_.run(*last, shows_, origin_, *plan.finish, out);
  return true;
}

void PictureWorker::end() {
  jpeg_->end();
  png_->end();
}

Bytes PictureWorker::held() const {
  return buffers_[0].held() + buffers_[1].held() + resampler_.held() + jpeg_->held() + png_->held();
}

void PictureWorker::drop() {
  for (PictureBuffer& buffer : buffers_) buffer.drop();
  resampler_.drop();
  jpeg_->drop();
  png_->drop();
}

bool PictureWorker::open(std::span<const std::byte> bytes, const DecodeLimits& limits) {
  if (!is_jpeg(bytes) && !is_png(bytes)) return fail("neither JPEG nor PNG");
  decoder_ = is_jpeg(bytes) ? jpeg_.get() : png_.get();
  if (decoder_->open(bytes, limits)) return true;
  if (decoder_->ran_out_of_memory()) throw std::bad_alloc();
  return fail(decoder_->problem());
}

bool PictureWorker::fail(std::string_view problem) {
  problem_ = problem;
  return false;
}

// --------------------------------------------------------------------------------- memory ----

bool PictureWorker::reserve(const Box& wanted, bool decode, bool in_foreign, Bytes beside) {
  Bytes needs = beside;
  if (decode) needs = memory::counted_sum(needs, decoder_->needs(wanted));
  const Extent2 first = decode ? decoder_->decoded_most(wanted) : shows_.extent;
  needs = memory::counted_sum(needs, operations_need(first, in_foreign));
  if (scratch_.take(needs)) return true;
  return fail(decode ? fmt::format("{} x {} pixels: {}", decoder_->extent().width,
                                   decoder_->extent().height, scratch_.problem())
                     : scratch_.problem());
}

// Each operation makes a picture in the buffer that does not hold the one before, and each buffer
// grows to the largest.
Bytes PictureWorker::operations_need(Extent2 extent, bool is_foreign) const {
  std::array<Bytes, 2> buffers{};
  std::size_t shown = 1;
  Resampler::Needs tables;
  if (!is_foreign) buffers[shown = 0] = PictureBuffer::bytes(extent);
  const auto make = [&](Extent2 made) {
    shown = 1 - shown;
    buffers[shown] = std::max(buffers[shown], PictureBuffer::bytes(made));
  };
  const auto scale = [&](const Scaling& scaling) {
    tables.add(scaling);
    make(scaling.window.extent());
  };
  for (const Operation& operation : operations_) {
    if (const auto* scaling = std::get_if<Scaling>(&operation)) {
      scale(*scaling);
      extent = scaling->window.extent();
    } else if (const auto* pad = std::get_if<Pad>(&operation)) {
      make(extent = pad->box.extent());
    } else if (const auto* plugin = std::get_if<ByPlugin>(&operation)) {
      make(extent = plugin->size);
    } else if (is_foreign) {
      scale({whole(extent), extent, whole(extent), false});
    }
    is_foreign = false;
  }
  return memory::counted_sum(tables.sum(), memory::counted_sum(buffers[0], buffers[1]));
}

// ------------------------------------------------------------------------------- choosing ----

bool PictureWorker::choose(const PicturePlan& plan, std::size_t from, std::size_t to,
                           std::uint64_t draw_key) {
  for (std::size_t i = from; i < to; ++i) {
    const PictureStep& step = plan.steps[i];
    if (!choose_one(step.kind, order::step_seed(draw_key, step.draw), plan.limits.pixels_most))
      return false;
  }
  return true;
}

bool PictureWorker::choose_one(const StepKind& kind, std::uint64_t seed,
                               std::uint64_t pixels_most) {
  Random draws(seed);
  if (const auto* resize = std::get_if<Resize>(&kind)) {
    const Extent2 to =
        resize->shorter > 0 ? scaled_to_shorter(extent_, resize->shorter) : resize->size;
    // A line of a million pixels would become a picture of a million lines.
    if (static_cast<std::uint64_t>(to.width) * static_cast<std::uint64_t>(to.height) > pixels_most)
      return fail(fmt::format("it would be resized to {} x {} pixels", to.width, to.height));
    choose_scaling(whole(extent_), to);
  } else if (const auto* crop = std::get_if<RandomResizedCrop>(&kind)) {
    choose_scaling(random_crop(extent_, crop->area, crop->ratio, draws), crop->size);
  } else if (const auto* centre = std::get_if<CentreCrop>(&kind)) {
    choose_crop(centre_box(extent_, centre->size));
  } else if (const auto* flip = std::get_if<HorizontalFlip>(&kind)) {
    if (draws.unit() < flip->probability) choose_flip();
  } else if (const auto* jitter = std::get_if<ColourJitter>(&kind)) {
    operations_.push_back(draw_jitter(jitter->ranges, draws));
  } else if (const auto* plugin = std::get_if<PictureByPlugin>(&kind)) {
    if (plugin->size.width > 0) extent_ = plugin->size;
    operations_.push_back(ByPlugin{plugin, seed, extent_});
  }
  return true;
}

Scaling* PictureWorker::last_scaling() {
  return operations_.size() == part_ ? nullptr : std::get_if<Scaling>(&operations_.back());
}

void PictureWorker::choose_scaling(const Box& from, Extent2 to) {
  operations_.push_back(Scaling{from, to, whole(to), false});
  extent_ = to;
}

void PictureWorker::choose_crop(const Box& box) {
  const bool inside = box.x >= 0 && box.y >= 0 && box.x + box.width <= extent_.width &&
                      box.y + box.height <= extent_.height;
  extent_ = box.extent();
  if (!inside) {
    operations_.push_back(Pad{box});
    return;
  }
  // Of a picture that is scaled, only the wanted part is made.
  Scaling* const before = last_scaling();
  if (!before || before->flip)
    operations_.push_back(Scaling{box, extent_, whole(extent_), false});
  else
    before->window = {before->window.x + box.x, before->window.y + box.y, box.width, box.height};
}

void PictureWorker::choose_flip() {
  if (Scaling* const before = last_scaling())
    before->flip = !before->flip;
  else
    operations_.push_back(Scaling{whole(extent_), extent_, whole(extent_), true});
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
    if (!std::visit([this](const auto& one) { return carry_out(one); }, operations_[from]))
      return false;
  }
  return true;
}

bool PictureWorker::show(PictureBuffer& picture) {
  holds_ = &picture;
  shows_ = picture.view();
  origin_ = whole(shows_.extent);
  return true;
}

PictureBuffer& PictureWorker::other_buffer() {
  return holds_ == &buffers_[0] ? buffers_[1] : buffers_[0];
}

bool PictureWorker::carry_out(const Scaling& scaling) {
  PictureBuffer& out = other_buffer();
  resampler_.run(scaling, shows_, origin_, out);
  return show(out);
}

bool PictureWorker::carry_out(const Pad& pad) {
  BF_CHECK(origin_ == whole(shows_.extent));
  PictureBuffer& out = other_buffer();
  out.reset(pad.box.extent());
  std::memset(out.pixels(), 0, out.stride() * static_cast<std::size_t>(pad.box.height));
  const Box& box = pad.box;
  const int left = std::max(0, box.x), right = std::min(shows_.extent.width, box.x + box.width);
  const int top = std::max(0, box.y), end = std::min(shows_.extent.height, box.y + box.height);
  for (int y = top; y < end; ++y)
    std::memcpy(out.row(y - box.y) + static_cast<std::size_t>(left - box.x) * kChannels,
                shows_.row(y) + static_cast<std::size_t>(left) * kChannels,
                static_cast<std::size_t>(right - left) * kChannels);
  return show(out);
}

bool PictureWorker::carry_out(const Jitter& jitter) {
  if (!holds_) carry_out(Scaling{origin_, origin_.extent(), origin_, false});  // foreign: a copy
  for (const ColourChange change : jitter.order)
    apply(change, jitter.factor[static_cast<std::size_t>(change)], *holds_);
  return true;
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
