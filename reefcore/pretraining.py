"""Masked-autoencoder pretraining of a ViT (He et al. 2022, arXiv 2111.06377), of parts by lightly. Imports torch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from lightly.models import utils
from lightly.models.modules import MaskedVisionTransformerTIMM
from lightly.models.modules.masked_vision_transformer_decoder_timm import MaskedVisionTransformerDecoderTIMM
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from reefcore.errors import ReefcoreError
from reefcore.learners import Learner, backbone
from reefcore.recipes import Recipe


class MaskedAutoencoder(Learner):
    """A ViT that sees a part of each image's patches, and a small decoder that predicts the pixels of the others.

    The loss is the mean squared error over hidden patches, whose pixels are normalised patch by patch. Which ones are
    hidden is drawn from torch's global generator.

    Parameters
    ----------
    recipe : Recipe
        Its `task_args` are ``mask_ratio`` (share of patches hidden; 0.75 in the paper, section A.3.1), ``decoder_dim``,
        ``decoder_depth`` and ``decoder_heads``. From scratch, weights and the fixed sine-cosine positions are
        initialised as in the paper by He et al.

    Raises
    ------
    ReefcoreError
        Where the recipe's model is no plain ViT of timm.
    """

    def __init__(self, recipe: Recipe):
        super().__init__(recipe, [])
        vit = backbone(recipe, 0)
        if not isinstance(vit, VisionTransformer):
            raise ReefcoreError(f"masked pretraining needs a ViT, which {recipe.model} is not", f"recipe {recipe.name}")
        args = recipe.task_args
        self.mask_ratio, self.side = args["mask_ratio"], vit.patch_embed.patch_size[0]
        fresh = ("", "sincos") if recipe.weights == "scratch" else ("skip", "skip")
        self.encoder = MaskedVisionTransformerTIMM(
            vit, weight_initialization=fresh[0], pos_embed_initialization=fresh[1]
        )
        self.encoder.mask_token.requires_grad_(False)  # the encoder sees no hidden patch; several GPUs need this said
        self.embed = nn.Linear(vit.embed_dim, args["decoder_dim"])
        self.decoder = MaskedVisionTransformerDecoderTIMM(
            vit.patch_embed.num_patches,
            args["decoder_dim"],
            args["decoder_depth"],
            args["decoder_heads"],
            num_prefix_tokens=vit.num_prefix_tokens,
        )
        self.predict = nn.Linear(args["decoder_dim"], 3 * self.side**2)
        for layer in (self.embed, self.predict):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, target: Tensor | None = None) -> Tensor:
        hidden, predicted = self._predict(x)
        pixels = utils.get_at_index(utils.patchify(x.float(), self.side), hidden)
        return F.mse_loss(predicted, utils.normalize_mean_var(pixels))

    def encoder_state(self) -> dict[str, Tensor]:
        """Give the weights from which a timm model of the same name and arguments goes on; it lacks only the head."""
        return self.encoder.vit.state_dict()

    def _predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Hide patches; give their positions, shape (n, hidden), and predicted pixels, shape (n, hidden, pixels)."""
        vit = self.encoder.vit
        prefix, patches = vit.num_prefix_tokens, vit.patch_embed.num_patches
        shown, hidden = utils.random_token_mask(
            (len(x), patches), self.mask_ratio, mask_class_token=True, device=x.device
        )
        shown = torch.cat([torch.arange(prefix, device=x.device).expand(len(x), -1), shown + prefix], dim=1)
        # A ViT that pools averages normalises after pooling: then that is the norm which is trained and handed on.
        tokens = self.embed(vit.fc_norm(self.encoder.encode(x, idx_keep=shown)))
        full = tokens.new_zeros(len(x), prefix + patches, tokens.shape[-1])
        decoded = self.decoder(utils.set_at_index(full, shown, tokens), idx_mask=hidden + prefix)
        return hidden, self.predict(utils.get_at_index(decoded, hidden + prefix))
