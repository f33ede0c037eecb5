/** What the page of many sources, those of one, and the controls have beside the style that all pages share. */
export const OVERVIEW_STYLESHEET = `
h1 a{text-decoration:none}
.step::before{content:"/";margin:0 7px;color:var(--quiet);font-weight:400}
.told{position:fixed;bottom:12px;left:12px;right:12px;z-index:3;display:flex;gap:10px;max-width:900px;margin:0 auto;padding:10px 16px;border:1px solid var(--line);border-radius:8px;background:var(--fine-bg);font-weight:600}
.told.late{background:var(--late-bg)}
.told .icon{margin-top:4px}
.more{color:var(--quiet)}
.controls{position:relative;display:flex;flex-wrap:wrap;align-items:flex-start;gap:6px}
.title .controls{margin-left:auto}
main>.controls{margin-top:10px;justify-content:flex-end}
.source>.controls,li>.controls,figcaption>button{margin:6px 0}
figcaption>button{display:block}
.record>button{display:block;margin-bottom:4px}
button,.fold>summary{margin:0;padding:3px 10px;border:1px solid var(--field);border-radius:6px;background:var(--soft);color:inherit;font:inherit;font-size:12.5px;line-height:1.5;cursor:pointer}
button:disabled{color:var(--quiet);border-color:var(--line);cursor:default}
button:enabled:hover,.fold>summary:hover{border-color:var(--text)}
.fold{padding:0}
.fold+.fold,.notes+.fold{margin:0;border:0}
.fold>summary{list-style:none;display:block}
.fold>summary::-webkit-details-marker{display:none}
.fold p{position:absolute;z-index:2;top:100%;left:0;right:0;margin-top:4px;padding:8px 12px;border:1px solid var(--field);border-radius:6px;background:var(--panel)}
.fold button{margin-top:6px;display:block;border-color:var(--late);color:var(--late)}
.map{display:grid;grid-template-columns:repeat(auto-fill,minmax(168px,1fr));gap:1px 12px;margin-top:14px;padding:10px 14px;border:1px solid var(--line);border-radius:8px;background:var(--panel)}
.map a{display:flex;align-items:center;gap:7px;min-width:0;height:21px;font-size:13px;text-decoration:none}
.map a:hover span{text-decoration:underline}
.map span{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.map .icon{width:11px;height:11px}
.map .quiet>.icon{color:var(--quiet)}
.map .down,.map .late{font-weight:650}
.choice{display:flex;flex-wrap:wrap;align-items:center;gap:4px 16px;margin-left:auto;font-size:12.5px}
.choice input[type=search]{width:230px;max-width:100%;margin-left:4px;padding:3px 8px;border:1px solid var(--field);border-radius:6px;background:var(--bg);color:inherit;font:inherit}
.choice ::placeholder{color:var(--quiet);opacity:1}
.choice input[type=checkbox]{accent-color:var(--main);margin:0 3px 0 0;vertical-align:-2px}
.overview{padding-bottom:8px}
.sources{font-size:13px;line-height:1.3}
.sources td,.sources th{padding:3px 12px 3px 0;white-space:nowrap}
.sources tbody th{font-weight:600}
.sources thead th{padding-bottom:5px}
.sources thead a{text-decoration:none}
.sources thead [aria-sort] a{color:var(--text)}
.sources .icon{width:11px;height:11px}
.sources .what{width:40%;max-width:0;padding-right:0}
.sources .what div{overflow:hidden;text-overflow:ellipsis}
.spark svg{width:60px;height:12px;margin-right:8px;vertical-align:-2px}
.spark path{stroke:var(--main);stroke-width:.8}
.paged .plots{margin-top:14px}
.record{max-width:420px;min-width:210px}
.record details{padding:0;margin:0;border:0}
.record summary{margin-left:14px;font-size:12.5px}
.record pre{max-height:280px;overflow:auto;white-space:pre-wrap;font-size:11.5px}
.reasons{display:flex;flex-wrap:wrap;gap:4px 18px;margin:0 0 8px;font-size:13px}
.dot{fill:var(--main)}
.point-text{fill:var(--text);font-size:11px;font-weight:600}
@media (max-width:900px){
.map{grid-template-columns:repeat(auto-fill,minmax(132px,1fr));padding:10px}
.title .controls,.choice{margin-left:0}
main>.controls{justify-content:flex-start}
.sources,.sources tbody{display:block}
.sources thead{display:none}
.sources tr{display:grid;grid-template-columns:auto 1fr auto;gap:0 10px;padding:6px 0;border-top:1px solid var(--line)}
.sources tr:first-child{border-top:0}
.sources td,.sources th,.sources .what{display:block;width:auto;max-width:none;padding:0;border:0}
.sources td:nth-child(4),.sources td:nth-child(5),.sources td:nth-child(6),.sources td:nth-child(7),.sources td:nth-child(8){display:none}
.sources th{min-width:0;overflow:hidden;text-overflow:ellipsis}
.sources .what{grid-column:1/-1;min-width:0;font-size:12.5px}
.sources .empty{display:block;grid-column:1/-1;white-space:normal}
.choice label:first-of-type{flex:1 1 100%}.choice input[type=search]{width:calc(100% - 40px)}}
@media (max-width:640px){.map{display:none}.sources .what.quiet{display:none}}
@media print{.controls,.choice{display:none}}
`;
