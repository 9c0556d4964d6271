"""The draws of random steps, reckoned a second time from the rules of core/order/keys.h, and the part
that RandomResizedCrop takes."""
import math

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z):
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 & MASK
    z ^= z >> 27
    z = z * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def hash_words(*words):
    h = 0
    for word in words:
        h = mix((h + GOLDEN & MASK) ^ mix(word + GOLDEN & MASK))
    return h


class Draws:
    def __init__(self, key, step):
        self.state = hash_words(key, step)

    def draw(self):
        self.state = self.state + GOLDEN & MASK
        return mix(self.state)

    def below(self, n):
        return self.draw() * n >> 64

    def unit(self):
        return (self.draw() >> 11) * 2.0**-53

    def uniform(self, least, most):
        return least + self.unit() * (most - least)


def crop_box(width, height, draws, scale=(0.08, 1), ratio=(3 / 4, 4 / 3)):
    for _ in range(10):
        area = width * height * draws.uniform(*scale)
        aspect = math.exp(draws.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return draws.below(height - h + 1), draws.below(width - w + 1), h, w
    if width / height < ratio[0]:
        w, h = width, round(width / ratio[0])
    elif width / height > ratio[1]:
        w, h = round(height * ratio[1]), height
    else:
        w, h = width, height
    return (height - h) // 2, (width - w) // 2, h, w
