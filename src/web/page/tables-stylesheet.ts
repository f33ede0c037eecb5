/** What the page of tables has beside the style of the status page. */
export const TABLES_STYLESHEET = `
.tables .contents{margin-bottom:12px}
.tables .contents a{margin-right:14px}
.tables tbody th{font-weight:400;white-space:nowrap}
.tables tbody th code{font-weight:650}
.tables td .path{white-space:normal}
.tables td,.tables th{padding-top:5px;padding-bottom:5px}
.tables .text{max-width:46em}
.tables summary h4 code{font-size:13px;color:var(--text)}
.tables .query{margin-top:10px}
.tables summary h3{margin:0}
.er{display:block;max-width:none}
.er .table{fill:var(--panel);stroke:var(--quiet)}
.er .rule{stroke:var(--line)}
.er text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:var(--text)}
.er .name{font-weight:650}
.er .reference{fill:var(--main)}
.er .edge{fill:none;stroke:var(--main);stroke-width:1.3}
@media print{.er{max-width:100%;height:auto}.wide{overflow:visible}.tables details{break-inside:auto}}
`;
