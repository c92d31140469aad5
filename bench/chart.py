"""Draws one panel of bars per workload as an SVG file; used by bench/compare."""
import html
import os

COLUMNS, PANEL_WIDTH, LABEL_WIDTH, VALUE_WIDTH = 2, 560, 110, 90
TITLE_HEIGHT, BAR_HEIGHT, GAP = 46, 20, 24
BAR_WIDTH = PANEL_WIDTH - LABEL_WIDTH - VALUE_WIDTH
LONGEST = 5  # a bar is truncated at this multiple of Weft's (or the best peer's) value, to keep the others readable
COLOURS = {"weft": "#c2410c", "peer": "#64748b", "limit": "#cbd5e1"}


def colour(peer):
    return COLOURS["weft"] if peer == "weft" else COLOURS["limit"] if peer.startswith("limit") else COLOURS["peer"]


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def text(x, y, content, size=12, anchor="start", fill="#0f172a", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}" '
            f'font-weight="{weight}">{html.escape(content)}</text>')


def panel_height(row):
    return TITLE_HEIGHT + BAR_HEIGHT * len(row.all()) + GAP


def draw_panel(row, about, must, left, top):
    """Draw bars from the row's figures, and a dashed line at the target `must`."""
    anchor = row.weft or (row.peers or row.limits)[0]
    longest = min(max(figure.median for figure in row.all()), LONGEST * anchor.median)
    threshold = row.threshold(must) if must else None
    if threshold and row.weft:
        longest = max(longest, min(threshold, LONGEST * anchor.median))
    scale = BAR_WIDTH / longest if longest else 0
    parts = [text(left, top + 16, f"{row.name}, {row.unit}", 14, weight="bold"),
             text(left, top + 33, f"{about}; {row.better} is better", 11, fill="#475569")]
    for index, figure in enumerate(row.all()):
        y = top + TITLE_HEIGHT + index * BAR_HEIGHT
        cut = figure.median > longest
        width = min(figure.median, longest) * scale
        start = left + LABEL_WIDTH
        parts.append(text(start - 6, y + 13, figure.peer, anchor="end",
                          weight="bold" if figure.peer == "weft" else "normal"))
        parts.append(f'<rect x="{start}" y="{y + 2}" width="{max(width, 1):.1f}" height="{BAR_HEIGHT - 5}" '
                     f'fill="{colour(figure.peer)}"/>')
        low, high = (start + min(value, longest) * scale for value in (figure.low, figure.high))
        parts.append(f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + 9.5}" y2="{y + 9.5}" stroke="#0f172a" '
                     f'stroke-width="1"/>')
        parts.append(text(start + max(width, high - start) + 5, y + 13, number(figure.median) + (" »" if cut else "")))
    if threshold and threshold <= longest:
        x = left + LABEL_WIDTH + threshold * scale
        bottom = top + TITLE_HEIGHT + BAR_HEIGHT * len(row.all())
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top + TITLE_HEIGHT - 2}" y2="{bottom}" stroke="#15803d" '
                     f'stroke-dasharray="4 3"/>')
    return parts


def draw(path, rows, musts):
    """rows: [(row, about)]; musts: {row name: bound or None}."""
    tops, parts = [70] * COLUMNS, []
    for row, about in rows:
        column = tops.index(min(tops))
        parts += draw_panel(row, about, musts.get(row.name), 20 + column * (PANEL_WIDTH + 20), tops[column])
        tops[column] += panel_height(row)
    width, height = COLUMNS * (PANEL_WIDTH + 20) + 20, max(tops)
    legend = ("median of the runs, thin line low to high; light bars: no scheduler, what the machine allows; "
              "dashed: what Weft must reach; »: longer than drawn")
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="sans-serif">',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            text(20, 30, "Weft and its peers", 20, weight="bold"), text(20, 50, legend, 11, fill="#475569")]
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as svg:
        svg.write("\n".join(head + parts + ["</svg>"]) + "\n")
