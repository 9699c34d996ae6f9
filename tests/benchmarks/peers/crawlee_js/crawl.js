// Crawlee for JavaScript in its fastest form: node crawl.js SEEDS.
//
// Its HttpCrawler with links found by htmlparser2, without a tree, and repeated ones dropped before they are handed to
// its queue, which is in memory. Sessions and retries are off, and the limits on memory and CPU are loosened, so that
// it is not throttled.
import fs from 'node:fs';
import { Configuration, HttpCrawler, log } from 'crawlee';
import { Parser } from 'htmlparser2';

const concurrency = 64;
const seeds = fs.readFileSync(process.argv[2], 'utf8').split('\n').filter(Boolean);
const seen = new Set(seeds);
let pages = 0;

function linksOf(url, body) {
    let base = url;
    const hrefs = new Set();
    const parser = new Parser({
        onopentag(name, { href }) {
            if (href === undefined) return;
            if (name === 'a') hrefs.add(href);
            else if (name === 'base' && base === url) base = new URL(href, url).href;
        },
    });
    parser.end(body);
    const links = [];
    for (const href of hrefs) {
        if (!URL.canParse(href, base)) continue;
        const link = new URL(href, base);
        link.hash = '';
        if (link.protocol.startsWith('http') && !seen.has(link.href)) {
            seen.add(link.href);
            links.push(link.href);
        }
    }
    return links;
}

log.setLevel(log.LEVELS.ERROR);
const configuration = new Configuration({
    availableMemoryRatio: 1,
    maxUsedCpuRatio: 1,
    memoryMbytes: 16000,
    persistStorage: false,
});
const crawler = new HttpCrawler({
    autoscaledPoolOptions: {
        desiredConcurrency: concurrency,
        systemStatusOptions: {
            maxClientOverloadedRatio: 1,
            maxCpuOverloadedRatio: 1,
            maxEventLoopOverloadedRatio: 1,
            maxMemoryOverloadedRatio: 1,
        },
    },
    additionalMimeTypes: ['text/plain'],
    failedRequestHandler() {},
    maxConcurrency: concurrency,
    maxRequestRetries: 0,
    minConcurrency: concurrency,
    persistCookiesPerSession: false,
    requestHandlerTimeoutSecs: 60,
    respectRobotsTxtFile: { userAgent: 'bench' },
    retryOnBlocked: false,
    sameDomainDelaySecs: 0,
    useSessionPool: false,
    async requestHandler({ addRequests, body, request }) {
        pages += 1;
        await addRequests(linksOf(request.loadedUrl ?? request.url, String(body)));
    },
}, configuration);
await crawler.run(seeds);
console.log('pages', pages);
