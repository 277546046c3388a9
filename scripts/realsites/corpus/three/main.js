import * as THREE from 'three';
import { OrbitControls } from 'three/addons/controls/OrbitControls.js';
import { FontLoader } from 'three/addons/loaders/FontLoader.js';
import { TextGeometry } from 'three/addons/geometries/TextGeometry.js';
const scene = new THREE.Scene();
const camera = new THREE.PerspectiveCamera(70, 4 / 3, 0.1, 100);
camera.position.z = 3;
const renderer = new THREE.WebGLRenderer();
renderer.setSize(600, 450);
document.body.appendChild(renderer.domElement);
new OrbitControls(camera, renderer.domElement);
const material = new THREE.MeshNormalMaterial();
new FontLoader().load('three/examples/fonts/helvetiker_regular.typeface.json', font => {
  scene.add(new THREE.Mesh(new TextGeometry('Hi', { font, size: 1, depth: 0.3 }), material));
  renderer.render(scene, camera);
  document.getElementById('info').textContent += ', drawn';
});
