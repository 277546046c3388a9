import './main.css'; import picture from './picture.svg';
const image = new Image(); image.src = picture; image.width = 100; document.body.append(image);
import(/* webpackChunkName: "greeting" */ './greeting.js').then(one => one.greet());
import('./more.js').then(one => one.more());
const worker = new Worker(new URL('./worker.js', import.meta.url));
worker.onmessage = event => document.body.append(' worker said ' + event.data); worker.postMessage(20);