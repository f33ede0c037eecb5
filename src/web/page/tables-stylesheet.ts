/** What the page of tables has beside the style of the status page. */
export const TABLES_STYLESHEET = `
.tables .contents{margin-bottom:12px}
.tables .contents a{margin-right:14px}
.tables .search{position:sticky;top:0;z-index:1;padding:8px 0;background:var(--bg)}
.tables .search input{width:100%;max-width:380px;padding:6px 10px;border:1px solid var(--field);border-radius:6px;background:var(--panel);color:inherit;font:inherit}
.searching .unsearched,.tables [hidden]{display:none}
.tables tbody th{font-weight:400;white-space:nowrap}
.tables tbody th code{font-weight:650}
.tables td .path{white-space:normal}
.tables td,.tables th{padding-top:5px;padding-bottom:5px}
.tables .text{max-width:46em}
.tables details,.tables section{scroll-margin-top:48px}
.tables summary h4 code{font-size:13px;color:var(--text)}
.tables .query{margin-top:10px}
.tables summary h3{margin:0}
@media (max-width:640px){
.tables table,.tables tbody,.tables tr,.tables th{display:block}
.tables thead{display:none}
.tables tr{padding:7px 0;border-top:1px solid var(--line)}
.tables tr[hidden]{display:none}
.tables th,.tables td{padding:1px 0;border:0;white-space:normal}
.tables td{display:flex;gap:10px;text-align:left}
.tables td.none{display:none}
.tables td::before{content:attr(data-title);flex:0 0 92px;color:var(--quiet);font-size:12.5px}
.tables td>div{flex:1;min-width:0}
.tables td code,.tables th code{white-space:normal;overflow-wrap:anywhere}
.tables pre code{white-space:pre-wrap}}
@media print{.wide{overflow:visible}.tables details{break-inside:auto}.tables .search{display:none}}
`;

/** Runs in the browser: shows the tables and columns that contain what is typed. */
export const TABLES_SCRIPT = `(() => {
  'use strict';
  const field = document.getElementById('search');
  field.parentElement.hidden = false;
  field.addEventListener('input', () => {
    const wanted = field.value.trim().toLowerCase();
    const has = (e) => e.textContent.toLowerCase().includes(wanted);
    document.querySelector('main').classList.toggle('searching', wanted !== '');
    for (const table of document.querySelectorAll('details.found')) {
      const isNamed = has(table.querySelector('summary'));
      const rows = [...table.querySelectorAll('tbody tr')];
      for (const row of rows) row.hidden = !isNamed && !has(row);
      table.hidden = !isNamed && rows.every((row) => row.hidden);
      if (wanted !== '' && !isNamed) table.open = true;
    }
    for (const link of document.querySelectorAll('[id$="-tables"] tbody a'))
      link.closest('tr').hidden = document.getElementById(decodeURIComponent(link.hash.slice(1))).hidden;
  });
})();
`;
