"""The template of `report.html`: one file, no script, nothing from elsewhere, legible on screen and on paper."""

TEMPLATE = """\
{%- macro inline(text) -%}
{%- for kind, part in text -%}
{%- if kind == "quoted" -%}<code>{{ part }}</code>
{%- elif kind == "strong" -%}<strong>{{ part }}</strong>
{%- else -%}{{ part }}{%- endif -%}
{%- endfor -%}
{%- endmacro -%}
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { --ink: #222; --grey: #595959; --line: #ccc; --pale: #f4f4f4; --alarm: #b00020; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 66rem; padding: 1.5rem; background: #fff; color: var(--ink);
  font: 1rem/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line); }
p, ul { margin: .6rem 0; }
code, pre { font: .9em/1.4 ui-monospace, "DejaVu Sans Mono", Consolas, monospace; overflow-wrap: anywhere; }
pre { background: var(--pale); padding: .6rem .8rem; white-space: pre-wrap; }
.stamp { display: inline-block; border: 2px solid var(--alarm); color: var(--alarm); font-weight: 700; padding: .1rem .6rem; }
nav ul { columns: 4 11rem; padding-left: 1.1rem; margin: .4rem 0; font-size: .9rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .86rem; line-height: 1.35; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem .25rem 0; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid var(--grey); }
.number { text-align: right; }
td.number { white-space: nowrap; }
figure { margin: 1.4rem 0; }
figure svg { display: block; width: 100%; height: auto; border: 1px solid var(--line); }
figcaption { font-size: .9rem; color: var(--grey); margin-top: .3rem; }
@page { margin: 15mm; }
@media print {
  :root { font-size: 8.5pt; }
  body { max-width: none; padding: 0; }
  nav { display: none; }
  h2 { break-after: avoid; }
  figure { break-inside: avoid; }
  figure svg { max-height: 250mm; border: 0; }
  tr { break-inside: avoid; }
  thead { display: table-header-group; }
  .wide { overflow: visible; }
}
</style>
</head>
<body>
<header>
<h1>{{ title }}</h1>
{%- if stamp %}
<p><span class="stamp">{{ stamp }}</span></p>
{%- endif %}
<nav aria-label="Contents">
<ul>
{%- for section in sections %}
<li><a href="#{{ section.anchor }}">{{ section.title }}</a></li>
{%- endfor %}
</ul>
</nav>
</header>
<main>
{%- for section in sections %}
<section id="{{ section.anchor }}" aria-labelledby="{{ section.anchor }}-title">
<h2 id="{{ section.anchor }}-title">{{ section.title }}</h2>
{%- for block in section.blocks %}
{%- if block.kind == "paragraph" %}
<p>{{ inline(block.text) }}</p>
{%- elif block.kind == "bullets" %}
<ul>
{%- for item in block.items_ %}
<li>{{ inline(item) }}</li>
{%- endfor %}
</ul>
{%- elif block.kind == "commands" %}
<pre><code>{{ block.lines | join("\\n") }}</code></pre>
{%- elif block.kind == "figure" %}
<figure>
{{ block.svg }}
<figcaption><strong>{{ block.title }}.</strong> {{ block.reading }}</figcaption>
</figure>
{%- elif block.rows %}
<div class="wide">
<table>
<caption>{{ block.caption }}</caption>
<thead><tr>
{%- for name in block.head %}<th scope="col"{% if name in block.numbers %} class="number"{% endif %}>{{ name }}</th>{% endfor -%}
</tr></thead>
<tbody>
{%- for row in block.rows %}
<tr>
{%- for name, cell in row %}<td{% if name in block.numbers %} class="number"{% endif %}>{{ inline(cell) }}</td>{% endfor -%}
</tr>
{%- endfor %}
</tbody>
</table>
</div>
{%- else %}
<p><strong>{{ block.caption }}</strong>: none.</p>
{%- endif %}
{%- endfor %}
</section>
{%- endfor %}
</main>
</body>
</html>
"""
