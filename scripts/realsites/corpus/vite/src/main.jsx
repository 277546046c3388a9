import React, { lazy, Suspense } from 'react';
import { createRoot } from 'react-dom/client';
import { BrowserRouter, Link, Route, Routes } from 'react-router-dom';
import './main.css';
import logo from './logo.svg';
const Home = lazy(() => import('./Home.jsx'));
const About = lazy(() => import('./About.jsx'));
createRoot(document.getElementById('root')).render(<BrowserRouter>
  <nav><img src={logo} width="64" /> <Link to="/">Home</Link> <Link to="/about">About</Link></nav>
  <Suspense fallback="wait"><Routes><Route path="/" element={<Home />} /><Route path="/about" element={<About />} />
  <Route path="*" element={<p>Not found</p>} /></Routes></Suspense></BrowserRouter>);
