import { walk } from '/work/main/src/extract/walk.ts';
import { directClient, newMeter } from '/work/main/test/extract/direct-client.ts';
import { pageSchema } from '/work/main/src/source/page-style.ts';
import { createServer } from 'node:http';
import { fork } from 'node:child_process';
if (process.argv[2] === 'server') {
  const delay = Number(process.argv[3]); const total = Number(process.argv[4]);
  const rec = 'x'.repeat(900);
  let at=0, most=0; const bodies = new Map<number,string>();
  const s = createServer((q, r) => { const u = new URL(q.url!, 'http://x'); const p = Number(u.searchParams.get('page')); at++; most=Math.max(most,at);
    const go=()=>{ at--; if (u.pathname==='/most') return r.end(String(most)); r.setHeader('content-type','application/json'); r.end(bodies.get(p) ?? '{"data":[]}'); };
    delay ? setTimeout(go, delay) : go(); });
  for (let p=1;p<=total;p++) bodies.set(p, JSON.stringify({data: Array.from({length:100},(_, i)=>({id:p*100+i,rec}))}));
  s.listen(0, () => process.send!((s.address() as any).port));
} else {
  for (const [delay, total, work, ra] of [[50,100,0,8],[50,400,0,8],[50,400,3,8],[0,400,3,8],[0,400,1,8],[0,400,8,8]] as const) {
    const c = fork('/work/main/test/extract/lat.tmp.ts', ['server', String(delay), String(total)]);
    const port = await new Promise<number>(r => c.on('message', m => r(m as number)));
    const base = new URL(`http://127.0.0.1:${port}`);
    const meter = newMeter();
    const raw = directClient(); let wnext = 1; const t0 = performance.now();
    if (delay) await Promise.all(Array.from({length: ra}, async () => { while (wnext <= total+1) { const n = wnext++; await raw.get({url: new URL(`/v1/content?limit=100&page=${n}`, base), lane:'backfill', meter: newMeter()}); const e = performance.now()+work; while (performance.now()<e); } }));
    const rawWall = performance.now()-t0; const t = performance.now(); let pages=0; const sizes: number[] = []; (globalThis as any).sizes = sizes;
    for await (const p of walk({ client: directClient(), resource: {path:'/content',query:{},records:'data',page: pageSchema.parse({style:'page',size:100})}, listing:{baseUrl:base,prefix:'/v1'}, lane:'backfill', meter, runAhead: ra, clock: {monotonic:()=>performance.now()} })) {
      pages++; const e = performance.now()+work; while (performance.now()<e); 
    }
    const wall = performance.now()-t;
    const most = await (await fetch(base+'most')).text();
    console.log({delay,total,work, wall: Math.round(wall), raw: Math.round(rawWall), ratio: delay? +(wall/(total*delay/ra)).toFixed(3): undefined, most, requests: meter.requests});
    c.kill(); if (sizes.length) console.log(sizes.join(' ').slice(0, 300));
  }
}
