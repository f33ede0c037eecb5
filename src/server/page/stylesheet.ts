// The CSS of the status pages (`page-frame.ts`). The colours of a state, from good to bad: `fine`, `look`, `late`, `down`.

export const STYLESHEET = `
:root{color-scheme:light dark;--bg:#f6f7f8;--panel:#fff;--text:#1b1d21;--quiet:#5c626b;--line:#e2e5e9;--field:#858c96;--soft:#f1f3f5;
--fine:#1a7a48;--look:#8a5a00;--late:#b8430b;--down:#b42318;--main:#2c63c9;--fine-bg:#eef8f2;--look-bg:#fdf6e6;--late-bg:#fdf1ea;--down-bg:#fdeeec}
@media (prefers-color-scheme:dark){:root{--bg:#101214;--panel:#181b1f;--text:#e6e8eb;--quiet:#9aa2ad;--line:#2a2f36;--field:#737c88;--soft:#20242a;
--fine:#56c88c;--look:#e0ac46;--late:#ff9a62;--down:#ff8379;--main:#7aa7ff;--fine-bg:#14241b;--look-bg:#272011;--late-bg:#2b1c13;--down-bg:#2d1917}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--text);font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
main{max-width:1240px;margin:0 auto;padding:18px 20px 32px}
h1,h2,h3,h4,p,ul,figure{margin:0;padding:0}
h1{font-size:15px;font-weight:650;letter-spacing:-.01em}
h2{font-size:17px;font-weight:650;letter-spacing:-.01em}
h3{font-size:12px;font-weight:600;color:var(--quiet);margin:20px 0 8px}
h4{font-size:12px;font-weight:600;color:var(--quiet)}
code,pre{font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
a{color:inherit;text-decoration-color:var(--quiet);text-underline-offset:3px}
a:hover{text-decoration-color:currentColor}
:focus-visible{outline:2px solid var(--main);outline-offset:2px;border-radius:3px}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.quiet,.sub,.when,.hint,header p,footer,.facts{color:var(--quiet)}
.sub,.hint,.when{font-size:12.5px}
header{display:flex;align-items:baseline;gap:12px;margin-bottom:14px}
header p{margin-left:auto;font-size:12.5px}
.stopping{color:var(--look);font-size:12.5px}
#lost{position:sticky;top:0;z-index:2;padding:9px 20px;background:var(--down-bg);color:var(--down);border-bottom:1px solid var(--down);font-weight:600;text-align:center}
.cut-off main{opacity:.62}
.icon{width:13px;height:13px;flex:none;fill:currentColor;vertical-align:-1.5px}
.icon .cut{fill:none;stroke:var(--panel);stroke-width:1.9;stroke-linecap:round;stroke-linejoin:round}
.icon .hollow{fill:none;stroke:currentColor;stroke-width:1.6}
.fine>.icon,.icon.fine,.state.fine{color:var(--fine)}
.look>.icon,.icon.look,.state.look{color:var(--look)}
.late>.icon,.icon.late,.state.late{color:var(--late)}
.down>.icon,.icon.down,.state.down{color:var(--down)}
.state.quiet{color:var(--quiet)}
.state{font-weight:600;white-space:nowrap}
.state .icon{margin-right:6px}
.state.run{color:var(--main)}
.summary{display:flex;align-items:center;gap:12px;padding:14px 16px;border:1px solid var(--line);border-radius:8px;background:var(--panel)}
.summary .icon{width:20px;height:20px}
.summary .icon.quiet{color:var(--quiet)}
.summary.fine{background:var(--fine-bg)}.summary.look{background:var(--look-bg)}.summary.late{background:var(--late-bg)}.summary.down{background:var(--down-bg)}
.attention{list-style:none;margin:0 0 0;border:1px solid var(--line);border-top:0;border-radius:0 0 8px 8px;background:var(--panel)}
.summary:has(+.attention){border-radius:8px 8px 0 0}
.attention li{display:flex;gap:10px;padding:8px 16px 8px 19px;border-top:1px solid var(--line)}
.attention li:first-child{border-top:0}
.attention .icon{margin-top:4px}
.attention a{font-weight:600;margin-right:4px}
.command{display:inline-block;margin-left:8px;padding:0 6px;border-radius:4px;background:var(--soft)}
.source{margin-top:22px;padding:16px;border:1px solid var(--line);border-radius:8px;background:var(--panel)}
.title{display:flex;flex-wrap:wrap;align-items:baseline;gap:4px 16px;margin-bottom:10px}
.facts{display:flex;flex-wrap:wrap;gap:2px 16px;font-size:12.5px}
.problem{display:flex;gap:10px;margin:0 0 12px;padding:9px 12px;border-radius:6px;background:var(--down-bg)}
.problem .icon{margin-top:4px}
.stale table{opacity:.75}
.wide{overflow-x:auto}
table{width:100%;border-collapse:collapse;overflow-wrap:break-word}
td code,td time,th code,th time,.when{white-space:nowrap}
tbody th{font-weight:400}
th,td{padding:7px 14px 7px 0;text-align:left;vertical-align:top;border-top:1px solid var(--line)}
th:last-child,td:last-child{padding-right:0}
thead th{border-top:0;padding-top:0;padding-bottom:5px;font-size:12px;font-weight:600;color:var(--quiet);white-space:nowrap;vertical-align:bottom}
.number{text-align:right;white-space:nowrap}
.resources tbody th{font-weight:650}
.resources .sub{display:block}
.resources td:nth-child(2){min-width:112px}
.resources td:nth-child(3){min-width:200px;max-width:270px}
.resources td:nth-child(4){white-space:nowrap}
.progress{display:block;width:100%;height:4px;margin:5px 0 3px;border-radius:2px}
.progress .track{fill:var(--line)}.progress .done{fill:var(--main)}
.runs td,.runs th{padding-top:4px;padding-bottom:4px;white-space:nowrap;font-size:13px}
.runs .why td{border-top:0;padding-top:0;white-space:normal;color:var(--text);font-size:12.5px}
.runs .why code{color:var(--late)}
.text{min-width:150px;font-size:12.5px;color:var(--quiet)}
.figures{margin-top:18px;display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr));gap:16px 28px}
figure{display:flex;flex-direction:column}
figcaption{margin-bottom:6px}
figcaption .sub{display:block}
figcaption strong{font-size:22px;line-height:1.3;font-weight:650;letter-spacing:-.01em}
.empty{color:var(--quiet);max-width:46em}
div.empty{align-self:start;padding:14px 16px;border:1px dashed var(--line);border-radius:6px}
details{padding-top:12px}
details+details{margin-top:12px;border-top:1px solid var(--line)}
summary{cursor:pointer;list-style-position:outside;margin-left:16px}
summary h3{display:inline;margin:0}
summary::marker{color:var(--quiet);font-size:11px}
details>:not(summary){margin-top:8px}
pre{margin:6px 0;padding:8px 12px;border-radius:6px;background:var(--soft);overflow-x:auto}
footer{display:flex;flex-wrap:wrap;justify-content:space-between;gap:6px 20px;margin-top:22px;font-size:12.5px}
footer nav a{margin-left:14px}
h1 a{text-decoration:none}
.step::before{content:"/";margin:0 7px;color:var(--quiet);font-weight:400}
.more{color:var(--quiet)}
.sources{font-size:13px;line-height:1.3}
.sources td,.sources th{padding:3px 12px 3px 0;white-space:nowrap}
.sources tbody th{font-weight:600}
.sources thead th{padding-bottom:5px}
.sources .icon{width:11px;height:11px}
.sources .what{width:40%;max-width:0;padding-right:0}
.sources .what div{overflow:hidden;text-overflow:ellipsis}
.reasons{display:flex;flex-wrap:wrap;gap:4px 18px;margin:0 0 8px;font-size:13px}
`;
