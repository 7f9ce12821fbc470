"""Labels as people write them: what each means, what stays open, and what a person must decide."""

import pandas as pd
import pytest

from reefcore import tables, taxonomy
from reefcore.errors import ReefcoreError
from reefcore.files import share

# Written from knowledge of how CoralNet, CPCe, AIMS, NOAA, AGRRA, MERMAID and Reef Check label sets look.
CORALS = """
Acanthastrea: Acanthastrea echinata
Acropora: Acropora ; ACROPORA sp. ; acropora_branching ; Acropora - table ; AcroporaTabular
Acropora: Acropora cf. hyacinthus ; acropora millepora ; Dead table Acropora ; acrop
Acropora: Hard coral: Branching: Acropora ; HC>Acroporidae>Acropora>corymbose ; acervicornis ; A. cervicornis
Acropora: Acropora palmata - live tissue ; Staghorn coral ; apalmata ; Acroporra ; Acropora covered with turf
Acropora: genus: Acropora
Agaricia: Agaricia (Undaria) agaricites ; Undaria tenuifolia ; aagaricites
Alveopora: Alveopora
Goniopora: gonio ; Goniopora_massive
Anacropora: Anacropora
Astrea: Phymastrea curta ; Montastrea curta ; Astrea curta
Astreopora: Astreopora
Australophyllia: Symphyllia wilsoni
Bernardpora: Goniopora stutchburyi
Blastomussa: Blastomussa wellsi
Caulastraea: Caulastrea furcata
Cladocora: Cladocora arbuscula
Coelastrea: Goniastrea aspera
Coeloseris: Coeloseris mayeri
Colpophyllia: cnatans
Coscinaraea: Coscinaraea columna
Cyphastrea: cypha
Dendrogyra: dcylindrus
Dichocoenia: Dichocoenia stokesi
Diploastrea: Diploastrea heliopora
Diploria: Diploria ; dlabyrinthiformis ; D. labyrinthiformis
Dipsastraea: Favia matthaii ; Favia (Dipsastraea) pallida ; Dipsastraea (Favia) ; Favia speciosa ; Favia palida
Dipsastraea: Barabattoia amicorum ; Dipsastrea
Duncanopsammia: Turbinaria peltata
Echinophyllia: Echinophyllia aspera
Echinopora: Echinopora lamellosa
Euphyllia: Euphyllia glabrescens
Eusmilia: efastigiata
Favia: Favia ; Favia fragum ; Ffragum
Favites: Favia rotundata ; Favites ; favites abdita ; CREP Phymastrea sp. ; Montastraea valenciennesi
Favites: Montastrea colemani ; Montastraea magnistellata
Fimbriaphyllia: Euphyllia ancora
Fungiidae: Fungia ; Fungia scutaria ; Herpo ; sando ; Sandalolita ; Heliofungia actiniformis
Fungiidae: Mushroom coral ; CRED-Fungiid ; Ctenactis echinata ; free-living: Fungia etc
Galaxea: Galaxea fascicularis ; Galaxea astreata ; Galaxia ; Acrhelia horrescens
Gardineroseris: gardin
Goniastrea: favia stelligera ; Goniastrea retiformis ; G. edwardsi ; Goniastrea_encrusting ; Gonistrea
Helioseris: Leptoseris cucullata
Homophyllia: Scolymia australis ; Acanthastrea hillae
Hydnophora: Hydnophora rigida
Isophyllia: Isophyllastrea rigida
Isopora: Acropora subgenus Isopora ; Acropora (Isopora) palifera ; Acropora cuneata
Leptastrea: Leptastrea purpurea ; lept. purpurea
Leptoria: Leptoria phrygia
Leptoseris: Leptoseris
Lobophyllia: Lobophyllia agaricia ; Symphyllia recta ; Symphyllia ; Scolymia vitiensis ; Parascolymia
Madracis: Madracis mirabilis ; mdecactis
Meandrina: Meandrina meandrites ; mmeandrites
Merulina: Merulina ampliata
Micromussa: Acanthastrea lordhowensis
Montastraea: Montastraea cavernosa ; mcavernosa ; monta ; Montastrea ; Great star coral
Montipora: Montipora ; monti ; M capitata ; Montipora_foliose_bleached ; mont. capitata ; Montiopra
Montipora: Monitpora capitata ; Rice coral ; Montipora foliosa ; Montipora turgescens (pale)
Mussismilia: Favia leptophylla
Mycedium: Mycedium elephantotus
Oculina: Oculina diffusa
Orbicella: Montastraea annularis ; Montastrea faveolata ; mannularis ; Orbicella (Montastraea) franksi ; ofaveolata
Orbicella: Orbicella annularis species complex
Oxypora: Oxypora
Pachyseris: Pachyseris speciosa
Paragoniastrea: Favites russelli ; Goniastrea australensis
Paramontastraea: Montastrea salebrosa
Pavona: Pavona clavus_varians ; pavon ; Pavona cactus
Pectinia: Pectinia
Physogyra: Physogyra lichtensteini
Platygyra: Platygyra daedalea
Plerogyra: Bubble coral
Plesiastrea: Plesiastrea versipora
Pocillopora: Pocillopora meandrina ; pocill ; Pocillopora eydouxi ; P. damicornis ; Pocilopora damicornus
Pocillopora: Poc. verrucosa ; Cauliflower coral
Porites: Porites massive ; Massive Porites ; P. rus ; P.rus ; Porites (Synaraea) rus ; Synarea ; porites.lobata
Porites: Porites lobata/lutea ; P irr ; Poritesmassive ; Pastreoides ; porit ; porites algal overgrowth
Porites: Porites lichen ; Porites cylindrica, partially bleached ; CRED-Porites spp_massive ; Pts. porites
Porites: Mustard hill coral ; unidentified Porites ; Porites sp2 ; Napopora
Psammocora: psam ; Psamocora
Pseudodiploria: Diploria strigosa ; Diploria strigoza ; dclivosa ; pstrigosa
Scolymia: Scolymia cubensis
Seriatopora: seriatopora hystrix ; Birdsnest coral
Siderastrea: Siderastrea siderea ; ssiderea ; Siderastraea radians
Solenastrea: Solenastrea bournoni
Stephanocoenia: Stephanocoenia michelini
Stylophora: Stylo ; Stylophora pistillata
Tubastraea: Tubastrea coccinea
Turbinaria: Turbinaria ; Turbinaria reniformis ; turbinaria_plate
"""
# Not one hard-coral genus: several, none, another group, or not to be known without the ocean.
NOT = """
xyz ; Anthozoa ; non-Acropora ; Not Acropora branching ; coral other than Porites ; Goniopora/Alveopora
Acropora or Pocillopora ; Platygyra & Leptoria ; Acropora, Montipora ; Anacropora/Echinopora/Pavona ; porites etc
Porites/Millepora ; Faviidae ; Acroporidae ; Oculinidae ; Faviid unidentified ; Faviidae Siderastreidae
brain coral ; massive coral ; Branching hard coral ; Turbinaria (alga) ; Turbinaria ornata ; Turbinaria turbinata
Brown algae: Turbinaria ; Macroalgae: erect: Turbinaria ; turb ; Acropora (bryozoan) ; Astrea (gastropod)
Undaria pinnatifida ; Galaxaura ; Galaxaura rugosa ; Millepora ; Mille ; Milipora ; Tubipora musica
Heliopora coerulea ; Distichopora ; Stylaster ; Lobophora ; Lobophytum ; Lobophora variegata ; Sarcophyton
Porolithon ; Padina ; Palythoa ; Halimeda ; Acanthaster planci ; Acanthophora ; Echinometra ; Agelas
Amphimedon compressa ; acompressa ; cvaginalis ; Isopoda ; Crustacea ; Siderophila ; sponge on Porites
Soft coral: Sinularia ; Rubble (Acropora) ; sand ; SAND ; CCA ; lept ; lepto ; favi ; astre ; mass ; coral
dead ; dead coral with algae ; Bleached ; unknown ; lettuce coral ; P. americana ; Pseudopterogorgia americana
astrangiidae ; echinop ; PAST ; MON ; Coral from tank ; ahumilis
P. duer porites/pavona
"""


def labels(text):
    return [label for line in text.strip().splitlines() for label in line.split(" ; ")]


def expected():
    lines = [line.partition(": ") for line in CORALS.strip().splitlines()]
    return [(label, taxon) for taxon, _, text in lines for label in labels(text)]


@pytest.mark.parametrize(("label", "taxon"), expected())
def test_a_label_leads_to_the_genus_that_is_accepted_today(label, taxon):
    assert taxonomy.match_labels([label])["taxon"].fillna("-").tolist() == [taxon]


@pytest.mark.parametrize("label", labels(NOT))
def test_no_genus_is_guessed(label):
    row = taxonomy.match_labels([label]).iloc[0]
    assert row["rank"] != "genus" and row["taxon"] != "Fungiidae"
    assert (pd.isna(row["taxon"])) == (row["reason"] != "")


@pytest.mark.parametrize(
    ("label", "ocean", "taxon", "how"),
    [
        ("Porites", None, "Porites", "name"),
        ("porites lobata", None, "Porites", "word"),
        ("Favia", "Indo-Pacific", "Dipsastraea", "old name"),
        ("Favia fragum", "Indo-Pacific", "Favia", "word"),
        ("Favia", "Atlantic", "Favia", "name"),
        ("Montastraea", "Indo-Pacific", "Astrea", "old name"),
        ("Montastraea", "Atlantic", "Montastraea", "name"),
        ("Diploria strigosa", "Atlantic", "Pseudodiploria", "old name"),
        ("Turbinaria", "Atlantic", "Phaeophyceae", "homonym"),
        ("Turbinaria algae", None, "Phaeophyceae", "homonym"),
        ("ahumilis", "Atlantic", "Agaricia", "epithet"),
        ("ahumilis", "Indo-Pacific", "Acropora", "epithet"),
        ("Fungia fungites", None, "Fungiidae", "member"),
        ("Pocillipora", None, "Pocillopora", "misspelling"),
        ("Acanthasrea", None, "Acanthastrea", "spelling"),
        ("acrop", None, "Acropora", "abbreviation"),
        ("PAST", "Atlantic", "Porites", "code"),
        ("X.MOEN", "Indo-Pacific", "Montipora", "code"),
        ("MCAV bleached", "Atlantic", "Montastraea", "code"),
        ("Lettuce coral", "Atlantic", "Agaricia", "vernacular"),
        ("SAND", None, "Sediment", "vernacular"),
        ("Halimeda opuntia", None, "Chlorophyta", "word"),
        ("Pectiniidae", None, "Pectiniidae", "name"),
    ],
)
def test_how_a_label_is_matched(label, ocean, taxon, how):
    row = taxonomy.match_labels([label], ocean).iloc[0]
    assert (row["taxon"], row["how"]) == (taxon, how)


def test_aphia_ids_ranks_lineage_and_finest_genus():
    labels = ["Porites", "Fungia", "Turf", "Hard coral", "Merulinidae", "Coelastrea", "Fungia/Herpolitha"]
    table = taxonomy.match_labels(labels).set_index("label")
    assert table["aphia_id"].fillna(0).tolist() == [206485, 196100, 0, 0, 1579843, 0, 196100]
    assert table["rank"].tolist() == ["genus", "family", "other", "order", "family", "genus", "family"]
    assert table["genus"].fillna("-").tolist() == ["Porites", "Fungia", "-", "-", "-", "Coelastrea", "-"]
    assert table["family"].fillna("-").tolist()[:4] == ["Poritidae", "Fungiidae", "-", "-"]
    assert table["order"].isna().tolist() == [False, False, True, False, False, False, False]


@pytest.mark.parametrize(
    ("label", "condition"),
    [
        ("Bleached Porites", "Bleached"),
        ("Porites - partially bleached", "Bleached"),
        ("Porites, recently dead", "Dead"),
        ("Porites trematodiasis", "Trematodiasis"),
        ("Porites diseased", "Diseased"),
        ("Porites pale", "Pale"),
        ("Porites alive", "Healthy"),
        ("Porites partial mortality", None),
        ("Porites non-bleached", None),
        ("Porites", None),
    ],
)
def test_health_is_a_condition_and_not_a_taxon(label, condition):
    row = taxonomy.match_labels([label]).iloc[0]
    assert row["taxon"] == "Porites" and (
        row["condition"] == condition or (condition is None and pd.isna(row.condition))
    )


def test_codes_that_differ_in_case_only_are_left_to_a_person():
    table = taxonomy.match_labels(["MON", "Mon", "Porites", "porites"], "Indo-Pacific").set_index("label")
    assert table.loc[["MON", "Mon"], "taxon"].isna().all() and table.at["MON", "candidates"] == "Montipora"
    assert (table.loc[["Porites", "porites"], "taxon"] == "Porites").all()
    assert taxonomy.match_labels(["MON"], "Indo-Pacific")["taxon"].tolist() == ["Montipora"]


def test_the_review_table_lists_what_to_decide_by_weight():
    mapping = taxonomy.match_labels(
        ["Porites", "MON", "Acanthasrea", "Goniopora/Alveopora", "lepto", "Pavno", "PAV", "acrop"], "Indo-Pacific"
    ).assign(ocean="Indo-Pacific", annotations=[90, 80, 1, 70, 5, 5, 3, 20])
    table = taxonomy.review_table(mapping)
    assert table["label"].tolist() == ["MON", "Goniopora/Alveopora", "acrop", "Pavno", "lepto", "PAV", "Acanthasrea"]
    table = table.set_index("label")
    assert "Leptoria, Leptoseris" in table.at["lepto", "candidates"] and "several" in table.at["lepto", "reason"]
    assert table.at["Goniopora/Alveopora", "candidates"] == "Alveopora, Goniopora"
    assert table.at["Pavno", "candidates"].startswith("Pavona") and pd.isna(table.at["Pavno", "taxon"])
    assert "likeness" in table.at["Acanthasrea", "reason"] and table.at["Acanthasrea", "taxon"] == "Acanthastrea"
    assert taxonomy.review_table(taxonomy.match_labels(["xyz"]))["annotations"].isna().all()


def test_ids_from_a_look_up_fill_only_what_is_missing():
    mapping = taxonomy.match_labels(["Porites", "Coelastrea", "sand"])
    found = pd.DataFrame({"name": ["Porites", "Coelastrea"], "accepted_aphia_id": [1, 2]})
    assert taxonomy.fill_ids(mapping, found)["aphia_id"].fillna(0).tolist() == [206485, 2, 0]


def test_tables_of_names_agree_with_each_other():
    genera, species, other, aliases, more = (
        pd.read_csv(share("data", "taxonomy", f"{name}.csv"))
        for name in ("genera", "species_names", "not_hard_coral", "label_aliases", "label_aliases_more")
    )
    coral = {*genera["genus"], *taxonomy.taxa()["taxon"]}
    known = coral | set(taxonomy.BROAD) | {"Scleractinia"}
    for names in (genera["accepted"].dropna(), species["taxon"], other["label"], aliases["label"], more["label"]):
        assert sorted(set(names) - known) == []
    assert not (set(genera["genus"]) & set(taxonomy.taxa()["taxon"])), "a genus stands in one table"
    words = other["names"].str.split().explode()
    assert not (set(words) & {name.casefold() for name in coral}) and not words.duplicated().any()
    both = species.assign(epithet=species["epithets"].str.split()).explode("epithet")
    assert both[both.duplicated(["written", "epithet"])].empty


def test_ocean_decides_and_is_checked():
    assert taxonomy.ocean_of("Tropical Atlantic") == "Atlantic"
    assert taxonomy.ocean_of("Eastern Indo-Pacific") == "Indo-Pacific" and taxonomy.ocean_of(None) is None
    with pytest.raises(ReefcoreError, match="ocean='Pacific' is not known"):
        taxonomy.match_labels(["a"], "Pacific")


def test_mapping_keeps_rows_in_order_and_reports_coverage():
    frame = pd.DataFrame({"source": "s", "image": "i", "row": range(4), "column": 0})
    frame["label_raw"] = ["Favia", "zzz", "Sand", "Favia"]
    frame["realm"] = ["Tropical Atlantic", None, None, "Western Indo-Pacific"]
    mapped, mapping = taxonomy.map_labels(tables.complete(frame))
    assert mapped["label"].fillna("-").tolist() == ["Favia", "-", "Sediment", "Dipsastraea"]
    assert mapped["broad_category"].fillna("-").tolist() == ["Hard coral", "-", "Abiotic background", "Hard coral"]
    assert mapping["annotations"].sum() == 4 and mapping["taxon"].isna().sum() == 1
    coverage = taxonomy.coverage(mapping).set_index("how")
    assert coverage.at["not matched", "points"] == 1 and coverage["share"].sum() == 1


def test_the_tree_has_each_family_and_taxon_once_with_its_count():
    from reefcore import figures

    rows = [("Porites", "Poritidae", 900), ("Goniopora", "Poritidae", 1), ("Fungiidae", "Fungiidae", 50)]
    table = pd.DataFrame(rows, columns=["taxon", "family", "annotations"])
    texts = [text.get_text() for text in figures.taxon_tree(table).axes[0].texts]
    assert texts == [
        *("Poritidae  901", "Fungiidae  50", "Porites", "900", "Goniopora", "1", "Fungiidae", "50"),
        "Scleractinia  951",
    ]
    with pytest.raises(ReefcoreError, match="no tree can be drawn of Goniopora"):
        figures.taxon_tree(table.assign(family=table["family"].where(table["taxon"] != "Goniopora")))
    with pytest.raises(ReefcoreError, match="no tree can be drawn of no taxa"):
        figures.taxon_tree(table.head(0))


def test_a_code_that_no_list_gives_is_proposed_and_not_used():
    table = taxonomy.match_labels(["pfur", "PAST"]).set_index("label")
    assert table["taxon"].isna().all()
    assert (table.at["pfur", "candidates"], table.at["pfur", "reason"]) == ("Porites", "may be a code")
    assert (table.at["PAST", "candidates"], table.at["PAST", "reason"]) == (
        "Porites",
        "a code whose meaning depends on the ocean",
    )


def test_the_genus_is_the_accepted_one_even_where_an_old_one_is_shortened():
    row = taxonomy.match_labels(["M. annularis complex", "Fungia scutaria"]).set_index("label")
    assert row["genus"].tolist() == ["Orbicella", "Fungia"] and row["taxon"].tolist() == ["Orbicella", "Fungiidae"]


@pytest.mark.parametrize(
    ("label", "taxon"),
    [
        ("Acropora-associated algae", "Macroalgae"),
        ("Non-Scleractinian Hard Corals", None),
        ("not a stony coral: Millepora", "Millepora"),
        ("Undaria debris", "Phaeophyceae"),
        ("Soft sediment", "Sediment"),
        ("Boulder coral", "Scleractinia"),
    ],
)
def test_what_stands_beside_a_name_counts(label, taxon):
    found = taxonomy.match_labels([label])["taxon"].iloc[0]
    assert (None if pd.isna(found) else found) == taxon
