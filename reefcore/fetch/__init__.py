"""What the full profile needs from elsewhere: the released data, photos, places, weights; what it is and where it goes.

No host can be reached from where this was written: names of files and columns are those that programs which read them
use, and what a host has beyond that is listed, not guessed. See `reefcore.fetch.hub` for the Hugging Face hub.
"""

from __future__ import annotations

from dataclasses import dataclass

from reefcore import __version__

REEFNET, SUBSTRATE = "ReefNet/ReefNet-1.0", "QCR-Underwater-Perception/reef-guidance-system"  # datasets on the hub
RELEASED, PHOTOS, QUARANTINE, MEOW = "released", "photos", "quarantine", "meow"  # folders of the data folder
#: What hosts are told of who asks; a host can find the project by it.
USER_AGENT = f"reefcore/{__version__} (the ReefNet Companion, downloads for research on coral reefs)"


@dataclass(frozen=True)
class Item:
    """One thing that `reefcore fetch` gets.

    Attributes
    ----------
    about : str
        What it is.
    place : str
        Where it goes, relative to the data folder; empty where it goes into the hub's own cache.
    licence : str
    files : dict
        Of ReefNet's dataset: the name a file is kept under, which is its published one, -> a pattern by which it is
        found where the hub has renamed it.
    repository : str
        The dataset on the hub, where there is one.
    """

    about: str
    place: str
    licence: str
    files: dict
    repository: str = ""


_BY_NC_SA = "CC BY-NC-SA 4.0"
_OF_RSG = r"(rsg|wajh)"
_CROISSANT = {"croissant_ReefNet_1.0.json": r"croissant.*\.json"}
ITEMS = {
    "annotations": Item(
        "all points of the release with their labels (3 GB), and the description of the data set",
        RELEASED,
        _BY_NC_SA,
        {"All_ReefNet_annotations.csv": rf"(?!.*{_OF_RSG})(?!.*metadata).*annotations?.*\.csv"} | _CROISSANT,
        REEFNET,
    ),
    "metadata": Item(
        "what is known of annotations and sources, and the list of sources with their addresses on CoralNet",
        RELEASED,
        _BY_NC_SA,
        {
            "Metadata_All_ReefNet_annotations.xlsx": rf"(?!.*{_OF_RSG}).*metadata.*annotations?.*\.xlsx",
            "Metadata_ReefNet_by_CoralNet_sources.xlsx": rf"(?!.*{_OF_RSG}).*metadata.*sources?.*\.xlsx",
            "Overview_Sources_for_Image_Download.csv": rf"(?!.*{_OF_RSG}).*(overview|download).*\.csv",
        },
        REEFNET,
    ),
    "labelmapping": Item(
        "which label of the release each label of CoralNet became",
        RELEASED,
        _BY_NC_SA,
        {"ReefNet_labelmapping.xlsx": rf"(?!.*{_OF_RSG}).*label.?mapping.*\.xlsx"},
        REEFNET,
    ),
    "al-wajh": Item(
        "the test set from the Red Sea: points, labels and photos (1.2 GB, and as much again unpacked)",
        f"{RELEASED}, {PHOTOS}/<site>",
        _BY_NC_SA,
        {
            "ReefNet_RSG-TestDataset_annotations.csv": rf".*{_OF_RSG}.*annotations?.*\.csv",
            "ReefNet_RSG-TestDataset_labelmapping.xlsx": rf".*{_OF_RSG}.*label.?mapping.*\.xlsx",
            "ReefNet_RSG-TestDataset_images.zip": rf".*{_OF_RSG}.*(images?|photos?).*\.zip",
        },
        REEFNET,
    ),
    "meow": Item(
        "the polygons of the Marine Ecoregions of the World (1 MB)",
        MEOW,
        "as WWF and The Nature Conservancy publish it; to be cited: Spalding et al. 2007, doi:10.1641/B570707",
        {},
    ),
    "substrate": Item(
        "the photos of the substrate survey of Raine et al. 2025 (about 32 GB); needed by the substrate chapters only",
        "substrate",
        "stated as CC BY 4.0 and as CC BY-NC-SA 4.0 by different readers: keep to the stricter",
        {},
        SUBSTRATE,
    ),
    "weights": Item(
        "the pretrained models that the profile's recipes start from",
        "",
        "each model's own, on its page of the hub",
        {},
    ),
    "images": Item(
        "the photos of the sources on CoralNet, those that carry needed annotations",
        PHOTOS,
        "each source's own, within CoralNet's terms; to be accepted by --accept-terms",
        {},
    ),
}
