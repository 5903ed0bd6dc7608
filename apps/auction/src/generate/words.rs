//! Words of which names and descriptions are made.

pub(super) const FIRST: [&str; 24] = [
    "Ada",
    "Alan",
    "Barbara",
    "Claude",
    "Donald",
    "Edith",
    "Emmy",
    "Frances",
    "Grace",
    "Hedy",
    "Jean",
    "John",
    "Karen",
    "Katherine",
    "Leslie",
    "Margaret",
    "Niklaus",
    "Radia",
    "Sophie",
    "Shafi",
    "Tim",
    "Tony",
    "Vera",
    "Yuri",
];

pub(super) const LAST: [&str; 24] = [
    "Abel", "Bauer", "Castro", "Dubois", "Eriksen", "Fischer", "Garcia", "Haas", "Ivanova", "Jansen", "Kovac",
    "Lindgren", "Moreau", "Novak", "Okafor", "Park", "Quist", "Rossi", "Santos", "Tanaka", "Ueda", "Varga", "Weber",
    "Yilmaz",
];

pub(super) const CATEGORIES: [&str; 10] =
    ["Clocks", "Cameras", "Instruments", "Furniture", "Books", "Maps", "Ceramics", "Radios", "Tools", "Prints"];

pub(super) const ADJECTIVES: [&str; 16] = [
    "early",
    "rare",
    "signed",
    "walnut",
    "brass",
    "hand-made",
    "numbered",
    "complete",
    "silver",
    "small",
    "large",
    "painted",
    "folding",
    "portable",
    "naval",
    "northern",
];

pub(super) const THINGS: [&str; 20] = [
    "mantel clock",
    "box camera",
    "concertina",
    "writing desk",
    "atlas",
    "tea bowl",
    "valve radio",
    "plane",
    "etching",
    "sextant",
    "barometer",
    "typewriter",
    "violin",
    "armchair",
    "lamp",
    "telescope",
    "chess set",
    "globe",
    "pocket watch",
    "microscope",
];

pub(super) const MAKERS: [&str; 12] = [
    "Almgren & Sons",
    "Berthold",
    "Carlsson",
    "Dufour",
    "Emmerich",
    "Fenwick",
    "Galli",
    "Hartmann",
    "Ibarra",
    "Jellinek",
    "Kruse",
    "Lambert",
];

pub(super) const CONDITIONS: [&str; 3] = ["new", "used", "restored"];

pub(super) const SENTENCES: [&str; 10] = [
    "From a private collection.",
    "Light traces of use, otherwise well kept.",
    "Works as it did when it was made.",
    "With its original case.",
    "The finish shows its age.",
    "One owner since new.",
    "Cleaned and oiled last year.",
    "The maker's mark is legible.",
    "Shown at two exhibitions.",
    "A repair on the back was done by a master of the trade.",
];
