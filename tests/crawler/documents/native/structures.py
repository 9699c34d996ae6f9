"""Random pages of what a tree moves, hides or reads in another way."""

from __future__ import annotations

import random
from typing import Final

_ALONE_TEXT: Final = """
    text text & &amp; ü < > <br> <hr> <img~alt=i> <input> <input~type=hidden> <li> <dd> <dt> <rt>
    <a~href=@>a <a~href="@">b</a> <a>c</a> <A~HREF='@'>d</A> <a~xlink:href=@> </a> </A> <nobr>
    </nobr> <area~href=@~alt=e> <iframe~src=@></iframe> <iframe~src=@> <link~rel=next~href=@>
    <base~href=/@/> <link~rel=canonical~href="@"> <meta~name=robots~content=none>
    <meta~name~content=f> <meta~name="" <meta~http-equiv=refresh~content="0;url=@"> <frame~src=@>
    <frameset> </frameset> <noframes> <col> <title>g</title> <TITLE>h</title> <title/>
    <style>i</style> <plaintext> <textarea> <xmp> </xmp> <script><!--<script></script>
    <script><!--</script> --></script> --> <!-- --> <!--> <!---> <!x> <![CDATA[ ]]> <svg/> <g/>
    <path~d=/> <path/> <g~j=k/> <image/> <mglyph> <font~color=l> <font> </x> </p> </br> </b> </i>
    </svg> </math> </g> </foreignObject> </desc> </template> </table> </td> </tr> </tbody>
    </caption> </div> </span> </li> </h1> </body> </html> </head> <body> <tr> <td> <th> <svg> <g>
    <foreignObject> <math> <mi> <template> <table> <tbody> <caption> <div> <p> <b> <html>
    <clippath> </clipPath> <object> </object> <hr> <option> <keygen> <summary> <embed> <svg~m="/>
"""
_AROUND_TEXT: Final = """
    svg svg g foreignObject desc title math mi mtext semantics template template table table tr td
    th tbody thead caption colgroup div span p b i a A li ul h1 H2 select option form object
    marquee script style noscript textarea iframe head body html frameset noframes button font
    nobr center em article x-y
"""
_PARAGRAPHS_TEXT: Final = """
    <p> </p> <p>a</p> <div> </div> <li> <ul> </ul> <h1> </h1> <form> </form> <button> </button>
    <object> </object> <applet> <marquee> </marquee> <select> </select> <option> <input> <keygen>
    <table> </table> <tr> <td> </td> <th> </th> </tr> <caption> </caption> <tbody> <span> </span>
    <b> </b> <i> </i> <hr> <dd> <dl> </dl> <template> </template> <svg> </svg> <desc> </desc> <br>
    <math> </math> text <P> </P> <nobr> <body> </body> <script></script> <fieldset> <pre> <summary>
    <a~href=@><div>b</div></a> <a~href=@><div>b</div></a> <a~href=@><h2>c</h2></a> </a>
    <a~href=@>d<p>e</p></a> <a~href=@><ul><li>f</li></ul>g</a> <a~href=@>h</a> <map> <form>
    <area~href=@~alt='i>&amp;'> <area~href=@~alt=</a> <area~href=@>
"""
_ALONE: Final = [piece.replace("~", " ") for piece in _ALONE_TEXT.split()]
_AROUND: Final = _AROUND_TEXT.split()
_PARAGRAPHS: Final = [piece.replace("~", " ") for piece in _PARAGRAPHS_TEXT.split()]


def document(rng: random.Random) -> str:
    """Return a page: of blocks in anchors between what opens and closes paragraphs, or of elements
    that are mostly balanced, but not always nested as they should be."""
    depth = rng.randrange(6)
    if rng.random() < 0.3:
        html = "".join(rng.choice(_PARAGRAPHS) for _ in range(rng.randrange(3, 15)))
    else:
        html = "".join(_piece(rng, depth) for _ in range(rng.randrange(1, 7)))
    if rng.random() < 0.15:  # something goes missing or is added
        at = rng.randrange(len(html) + 1)
        html = html[:at] + rng.choice(["", *"<>\"'=/& -!a\0\r"]) + html[at + rng.randrange(4) :]
    if rng.random() < 0.05:
        html = html.upper()
    while "@" in html:
        html = html.replace("@", f"l{rng.randrange(12)}", 1)
    return html + rng.choice(["", "", "<title>n</title><a href=last>o</a>"])


def _piece(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.35:
        return rng.choice(_ALONE) + rng.choice(["", "", "", " ", "\n", "\r\n", "\0"])
    name = rng.choice(_AROUND)
    attributes = {"a": " href=@", "A": " HREF='@'", "iframe": " src=@"}.get(name, "")
    inside = "".join(_piece(rng, depth - 1) for _ in range(rng.randrange(4)))
    return f"<{name}{attributes}>{inside}" + (f"</{name}>" if rng.random() < 0.9 else "")
